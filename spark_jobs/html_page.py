"""Parts of self-contained HTML pages; every text is escaped here, for whoever may write to a topic wrote some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from connect_share.console import printable

# Everything is inside the page; the policy makes the browser refuse what a forgotten escape would let in.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #1c1c1a; --dim: #5c5c57; --line: #e2e2dd;
  --track: #efefea; --good: #0b6b38; --bad: #b3261e; --c1: #3b6fb6; --c2: #d9822b; --c3: #4f9d69; --c4: #9a5fb5;
  --c5: #b8495c; --c6: #7a7a72; }
@media (prefers-color-scheme: dark) { :root { --page: #161615; --card: #1f1f1e; --ink: #ecece8; --dim: #a8a8a0;
  --line: #383835; --track: #2c2c2a; --good: #6fcf97; --bad: #ff8a80; --c1: #7aa7e6; --c2: #f0a75e; --c3: #7fc597;
  --c4: #c196d8; --c5: #e3889a; --c6: #a5a59c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
p { margin: .4rem 0; } .dim { color: var(--dim); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 1rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; overflow-wrap: normal; }
th, td { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 600; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.yes { color: var(--good); font-weight: 700; } .no { color: var(--bad); font-weight: 700; }
"""


def text(content: object) -> str:
    """Give a value as text of a page: numbers with separators, what would lead the reader's eye astray as escapes."""
    shown = f"{content:,}" if isinstance(content, int) and not isinstance(content, bool) else str(content)
    return escape(printable(shown))


def page(title: str, parts: Iterable[str], *, style: str = "") -> str:
    """Give a whole page; ``parts`` are HTML already."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        f"<title>{text(title)}</title><style>{_STYLE}{style}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def section(title: str, content: str) -> str:
    """Give a part with a title; ``content`` is HTML already."""
    return f"<section><h2>{text(title)}</h2>{content}</section>"


def paragraph(content: object, *, dim: bool = False) -> str:
    """Give a paragraph of text."""
    kind = ' class="dim"' if dim else ""
    return f"<p{kind}>{text(content)}</p>"


def verdict(content: str, *, good: bool) -> str:
    """Give a word that stands out."""
    return f'<span class="{"yes" if good else "no"}">{text(content)}</span>'


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], numbers: frozenset[int] = frozenset()) -> str:
    """Give a table of texts; ``numbers`` are the columns that are aligned to the right."""

    def cell(tag: str, column: int, content: object) -> str:
        kind = ' class="number"' if column in numbers else ""
        return f"<{tag}{kind}>{text(content)}</{tag}>"

    head = "".join(cell("th", column, title) for column, title in enumerate(titles))
    lines = "".join(
        f"<tr>{''.join(cell('td', column, content) for column, content in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
