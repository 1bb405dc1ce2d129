"""Self-contained HTML pages, and Markdown, from templates. Every value is escaped: other tenants wrote some names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connect_share.console import printable

_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|×|%)(?!\w))")
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")
_BLANK_LINES: Final = re.compile(r"\n\s*\n")


def shown(value: object) -> str:
    """Return a value as plain text: a number with separators, and an escape for what would mislead the reader's eye."""
    return printable(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))


def render_page(template: str, *, package: str = "migrator.report", **values: object) -> str:
    """Return an HTML page.

    Args:
        template: file name in the folder ``templates`` of the package.
        package: its templates may extend and import those of this package.
        values: what the template shows; only :class:`markupsafe.Markup` is taken as HTML.
    """
    return _environment(package, _as_html).get_template(template).render(values)


def render_markdown(template: str, *, package: str, **values: object) -> str:
    """Return a Markdown document; the arguments are those of :func:`render_page`."""
    text = _environment(package, _as_markdown).get_template(template).render(values)
    return _BLANK_LINES.sub("\n\n", text).strip() + "\n"


@cache
def _environment(package: str, finalize: Callable[[object], str]) -> Environment:
    loaders = [PackageLoader(each) for each in dict.fromkeys((package, "migrator.report"))]
    return Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _as_html(value: object) -> str:
    """Return text for autoescape; a number stays on one line with its unit."""
    return value if isinstance(value, Markup) else _BEFORE_UNIT.sub("\u00a0", shown(value))


def _as_markdown(value: object) -> str:
    """Return text without anything that Markdown takes as markup."""
    if isinstance(value, Markup):
        return value
    return Markup(_MARKDOWN.sub(r"\\\1", shown(value)).replace("://", ":\\//"))  # noqa: S704 - escaped here
