"""A report as parts that a page and Markdown are made of alike, so that both say the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from connect_share.console import printable
from spark_jobs import html_page as report_page
from spark_jobs.startup.goals import Goal


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph.

    Attributes:
        dim: it explains.
        of_plots: it says how to read plots, and Markdown has none.
    """

    content: str
    dim: bool = False
    of_plots: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """Sentences, each of which stands for itself."""

    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A figure that is to be seen first: how much, of what, and how it came about."""

    figure: str
    what: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards side by side."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Goals:
    """Goals with what was measured, and whether they are met."""

    goals: tuple[Goal, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts and numbers.

    Attributes:
        numbers: columns that are aligned to the right.
        folded: the title of a table that a page shows only when asked to.
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    numbers: frozenset[int] = frozenset()
    folded: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with what it shows; Markdown has the table that goes with it instead.

    Attributes:
        svg: safe as it is.
        legend: what its colours are, from the first on; only where names have no place beside the thing.
    """

    title: str
    svg: str
    note: str = ""
    legend: tuple[str, ...] = ()


Block = Prose | Points | Cards | Goals | Table | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report with a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The whole report."""

    title: str
    about: str
    sections: tuple[Section, ...]


COLOURS: Final = 6
"""Of parts of a bar; more than that begin again."""
_VERDICTS: Final = {True: "✓ met", False: "✗ not met", None: "open"}


def as_page(document: Document, style: str) -> str:
    """Give the document as one self-contained HTML page."""
    head = f'<header><h1>{_text(document.title)}</h1><p class="dim">{_text(document.about)}</p></header>'
    parts = [report_page.section(section.title, _blocks_as_html(section.blocks)) for section in document.sections]
    return report_page.page(document.title, [head, *parts], style=style)


_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|×|%)(?!\w))")


def _text(content: str) -> str:
    """Give text of a page whose numbers stay in one line with their units."""
    return _BEFORE_UNIT.sub("\u00a0", report_page.text(content))


def _blocks_as_html(blocks: Sequence[Block]) -> str:
    parts = []
    for is_figure, group in groupby(blocks, key=lambda block: isinstance(block, Figure)):
        shown = "".join(_block_as_html(block) for block in group)
        parts.append(f'<div class="figures">{shown}</div>' if is_figure else shown)
    return "".join(parts)


def _block_as_html(block: Block) -> str:
    if isinstance(block, Prose):
        kind = ' class="dim"' if block.dim else ""
        return f"<p{kind}>{_text(block.content)}</p>"
    if isinstance(block, Points):
        return f"<ul>{''.join(f'<li>{_text(sentence)}</li>' for sentence in block.sentences)}</ul>"
    if isinstance(block, Cards):
        return f'<div class="cards">{"".join(map(_card, block.cards))}</div>'
    if isinstance(block, Goals):
        return f'<ul class="goals">{"".join(map(_goal, block.goals))}</ul>'
    if isinstance(block, Table):
        table = report_page.table(block.titles, block.rows, block.numbers)
        return f"<details><summary>{_text(block.folded)}</summary>{table}</details>" if block.folded else table
    note = f'<p class="dim">{_text(block.note)}</p>' if block.note else ""
    names = "".join(
        f'<li><span class="swatch b{number % COLOURS + 1}"></span>{_text(name)}</li>'
        for number, name in enumerate(block.legend)
    )
    legend = f'<ul class="legend">{names}</ul>' if names else ""
    return f"<figure><figcaption>{_text(block.title)}</figcaption>{note}{legend}{block.svg}</figure>"


def _card(card: Card) -> str:
    detail = f'<div class="detail">{_text(card.detail)}</div>' if card.detail else ""
    return f'<div class="card"><div class="big">{_text(card.figure)}</div><div>{_text(card.what)}</div>{detail}</div>'


def _goal(goal: Goal) -> str:
    kind = {True: "yes", False: "no", None: "dim"}[goal.met]
    return (
        f'<li><span class="verdict {kind}">{_VERDICTS[goal.met]}</span><div>{_text(goal.sentence)}: '
        f'<b>{_text(goal.measured)}</b> <span class="dim">(goal: {_text(goal.target)})</span></div></li>'
    )


def as_markdown(document: Document) -> str:
    """Give the document as Markdown; plots are the tables that go with them."""
    lines = [f"# {_plain(document.title)}", "", _plain(document.about), ""]
    for section in document.sections:
        lines += [f"## {_plain(section.title)}", ""]
        for block in section.blocks:
            lines += _block_as_markdown(block)
    return "\n".join(lines).rstrip() + "\n"


_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")


def _plain(content: object) -> str:
    """Escape what Markdown, or a table of it, would take as markup."""
    shown = f"{content:,}" if isinstance(content, int) and not isinstance(content, bool) else str(content)
    return _MARKUP.sub(r"\\\1", printable(shown)).replace("://", ":\\//")


def _block_as_markdown(block: Block) -> list[str]:
    if isinstance(block, Prose):
        return [] if block.of_plots else [_plain(block.content), ""]
    if isinstance(block, Points):
        return [*(f"- {_plain(sentence)}" for sentence in block.sentences), ""]
    if isinstance(block, Cards):
        return [
            *(
                f"- **{_plain(card.figure)}** {_plain(card.what)}{f' ({_plain(card.detail)})' if card.detail else ''}"
                for card in block.cards
            ),
            "",
        ]
    if isinstance(block, Goals):
        return _table(
            ("goal", "mark", "measured", ""),
            [(goal.sentence, goal.target, goal.measured, _VERDICTS[goal.met]) for goal in block.goals],
        )
    if isinstance(block, Table):
        title = [f"**{_plain(block.folded)}**", ""] if block.folded else []
        return [*title, *_table(block.titles, block.rows, block.numbers)]
    return []


def _table(titles: Sequence[str], rows: Sequence[Sequence[object]], numbers: frozenset[int] = frozenset()) -> list[str]:
    def row(cells: Sequence[object]) -> str:
        return f"| {' | '.join(map(_plain, cells))} |"

    rule = "|".join(" ---: " if column in numbers else " --- " for column in range(len(titles)))
    return [row(titles), f"|{rule}|", *map(row, rows), ""]
