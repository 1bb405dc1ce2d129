"""The page that shows a result: who shares with whom, and the evidence for each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from connect_share.model.records import TopicType
from tests.lab.compatibility.cells import JavaKind, Plugin, row_title
from tests.lab.compatibility.result import CellResult, JavaEvidence, Outcome

_TEMPLATE: Final = Path(__file__).with_name("page_template.md")
_WORDS: Final = {Outcome.SHARES: "shares", Outcome.FAILS: "**fails**"}


def page(results: Mapping[str, CellResult]) -> str:
    """Return the whole page as Markdown."""
    cells = sorted(results.values(), key=lambda cell: (cell.broker, _row_order(cell.kinds)))
    reasons: list[str] = []
    for cell in cells:
        if cell.reason and _plain(cell.reason) not in reasons:
            reasons.append(_plain(cell.reason))
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        summary=_summary(cells),
        matrix=_matrix(cells, reasons),
        notes="".join(f"\n{number}. {reason}" for number, reason in enumerate(reasons, 1)) + "\n" * bool(reasons),
        state=table(
            (
                "broker",
                "Java workers",
                "connectors",
                "starts, SIGKILLs",
                "lines written, arrived",
                "Python holds",
                "day",
            ),
            (row for cell in cells for row in _state_rows(cell)),
        ),
        logs=table(
            ("broker", "worker", "config", "status", "offset", "other", "WARN and ERROR"),
            (row for cell in cells for row in _log_rows(cell)),
        ),
        costs=table(
            ("broker", "worker", "log lines", "log MB"),
            (row for cell in cells for row in _cost_rows(cell)),
        ),
    )


def _summary(cells: Sequence[CellResult]) -> str:
    counted = {outcome: sum(cell.outcome is outcome for cell in cells) for outcome in Outcome}
    days = sorted({cell.measured_on for cell in cells})
    when = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "never"
    machines = "; ".join(dict.fromkeys(cell.machine for cell in cells))
    products = ", ".join(dict.fromkeys(cell.product for cell in cells))
    java = [one for cell in cells for one in cell.java]
    written, arrived = sum(one.lines_written for one in java), sum(one.lines_arrived for one in java)
    lost = sum(one.missing_statuses for one in java)
    headline = (
        f"**{len(cells)} cells: {counted[Outcome.SHARES]} share, {counted[Outcome.FAILS]} fail.** A worker was killed and "
        f"restarted {sum(one.kills for one in java)} times. {arrived:,} of {written:,} lines arrived."
    )
    where = (
        f"Measured {when} with connect-share {products}; {machines}; broker, workers and stores on the same machine."
    )
    parts = [headline, where]
    if lost:
        parts.append(
            f"{lost} task statuses were missing after a start of a 2.8 worker; the tasks ran. This sometimes happens on "
            "topics of its own, too ([java-workers.md](java-workers.md))."
        )
    return "\n\n".join(parts)


def _matrix(cells: Sequence[CellResult], reasons: Sequence[str]) -> str:
    brokers = list(dict.fromkeys(cell.broker for cell in cells))
    by_place = {(cell.broker, cell.kinds): cell for cell in cells}

    def word(broker: str, kinds: tuple[JavaKind, ...]) -> str:
        cell = by_place.get((broker, kinds))
        if cell is None:
            return "not tried"
        note = f" ({reasons.index(_plain(cell.reason)) + 1})" if cell.reason else ""
        return f"{_WORDS[cell.outcome]}{note}"

    rows = sorted(dict.fromkeys(cell.kinds for cell in cells), key=_row_order)
    return table(
        ("beside two Python groups", *(f"broker {broker}" for broker in brokers)),
        ((row_title(kinds), *(word(broker, kinds) for broker in brokers)) for kinds in rows),
    )


def _row_order(kinds: tuple[JavaKind, ...]) -> tuple[int, list[tuple[bool, str]]]:
    return len(kinds), [(kind.plugin is Plugin.JAR, kind.version) for kind in kinds]


def _state_rows(cell: CellResult) -> Iterable[tuple[str, ...]]:
    if cell.outcome is not Outcome.SHARES:
        return
    held = {part: sum(getattr(one, part) for one in cell.python) for part in ("connectors", "statuses", "offsets")}
    yield (
        cell.broker,
        row_title(cell.kinds) if cell.kinds else "none",
        _joined(one.connectors for one in cell.java),
        _joined(f"{one.starts}, {one.kills}" for one in cell.java),
        _joined(f"{one.lines_written}, {one.lines_arrived}" for one in cell.java),
        ", ".join(f"{number} {part}" for part, number in held.items()),
        cell.measured_on,
    )


def _log_rows(cell: CellResult) -> Iterable[tuple[str, ...]]:
    for one in cell.java:
        before = "" if one.alone is None else f"{one.alone.warnings + one.alone.errors:,} → "
        yield (
            cell.broker,
            _worker(cell, one),
            *(f"{one.beside.about_foreign[kind]:,} / {one.foreign[kind]:,}" for kind in TopicType),
            f"{one.beside.other_about_foreign:,}",
            f"{before}{one.beside.warnings + one.beside.errors:,}",
        )


def _cost_rows(cell: CellResult) -> Iterable[tuple[str, ...]]:
    for one in cell.java:
        alone, beside = one.alone, one.beside
        if alone is None:
            continue
        yield (
            cell.broker,
            _worker(cell, one),
            _ratio(alone.lines, beside.lines, "{:,.0f}"),
            _ratio(alone.bytes / 1e6, beside.bytes / 1e6, "{:.2f}"),
        )


def _worker(cell: CellResult, one: JavaEvidence) -> str:
    others = [other.kind.title for other in cell.java if other is not one]
    return f"{one.kind.title}, beside {others[0]}" if others else one.kind.title


def _ratio(before: float, after: float, form: str) -> str:
    times = f" (x {after / before:.1f})" if before else ""
    return f"{form.format(before)} → {form.format(after)}{times}"


def _joined(values: Iterable[object]) -> str:
    return " and ".join(map(str, values)) or "-"


def _plain(text: str) -> str:
    """Text of a worker or broker that may not become a table or markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("`", "'")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rows))
