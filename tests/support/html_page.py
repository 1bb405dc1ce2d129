"""What every HTML page of the project has to be: whole, in one file, without scripts."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class PageReader(HTMLParser):
    """Checks that tags are closed in order; collects tags with the names of their attributes, and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        """All texts of the page."""
        return " ".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {' '.join(name for name, _ in attrs)}")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {' '.join(name for name, _ in attrs)}")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.replace("\u00a0", " "))


def check_self_contained(page: str) -> None:
    """Check that the page loads nothing, runs nothing, and is light and dark and fit for a phone."""
    inside = re.sub(r'href="#\w+"|url\(#\w+\)', "", page)  # marks and clippings of a plot, in the same drawing
    assert not re.search(r"<script|(src|href)\s*=|url\(|@import", inside)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
