"""Self-contained HTML pages from templates. Every value is escaped, because some names were written by other tenants."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from connect_share.console import printable

_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|×|%)(?!\w))")


def shown(value: object) -> str:
    """Return a value as plain text: a number with separators, and an escape for what would mislead the reader's eye."""
    return printable(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))


def render_page(template: str, *, package: str = "migrator.report", **values: object) -> str:
    """Return a page.

    Args:
        template: file name in the folder ``templates`` of the package.
        package: its templates may extend and import those of this package.
        values: what the template shows; only :class:`markupsafe.Markup` is taken as HTML.
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    loaders = [PackageLoader(each) for each in dict.fromkeys((package, "migrator.report"))]
    return Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        finalize=_html_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _html_text(value: object) -> str:
    """Return text for autoescape; a number stays on one line with its unit."""
    return value if isinstance(value, Markup) else _BEFORE_UNIT.sub("\u00a0", shown(value))
