"""Lines and files of each part, and long things. Reads files only."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from tests.lab.house.modules import PRODUCT, entries, source

LAB: Final = "tests/lab"
# What has an extra of its own and is imported by nothing else; of two names for the same the second is of old revisions.
PARTS: Final = tuple(
    f"connect_share/{name}" for name in ("topic_ids", "runtime", "tasks", "group_membership", "herder")
)
CODE: Final = (".py", ".pyi", ".java")


@dataclass(frozen=True, slots=True)
class Area:
    """Where the files of one row of the table are.

    Attributes:
        places: folders and files.
        without: folders in them that do not count.
        suffixes: suffixes of the files that count.
    """

    places: tuple[str, ...]
    without: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = CODE


AREAS: Final = {
    "core": Area(PRODUCT, without=PARTS),
    **{f"  of it {package}": Area((package,), without=PARTS) for package in PRODUCT},
    "parts": Area(PARTS),
    "templates": Area(PRODUCT, suffixes=(".html", ".j2", ".css", ".md")),
    "lab": Area((LAB,)),
    "tests": Area(("tests",), without=(LAB,)),
    "docs": Area(("docs", "README.md"), suffixes=(".md",)),
}


@dataclass(frozen=True, slots=True)
class AreaSize:
    """Size of one area; blank lines and comments count."""

    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class HouseSize:
    """What :func:`measure` finds in one tree.

    Attributes:
        areas: sizes by the names of :data:`AREAS`.
        entries: names at the top level of ``connect_share``.
        longest_files: lines and place of the longest files of the product and the tests, longest first.
        longest_functions: lines and place of the longest functions of the product, longest first.
        repeated_classes: names that more than one class of the product has.
    """

    areas: dict[str, AreaSize]
    entries: list[str]
    longest_files: list[tuple[int, str]]
    longest_functions: list[tuple[int, str]]
    repeated_classes: list[str]


def _files(root: Path, area: Area) -> Iterator[Path]:
    for place in area.places:
        path = root / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            without = any(file.is_relative_to(root / folder) for folder in area.without)
            if file.suffix in area.suffixes and "__pycache__" not in file.parts and not without:
                yield file


def _line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _area_size(root: Path, area: Area) -> AreaSize:
    lines = [_line_count(file) for file in _files(root, area)]
    return AreaSize(len(lines), sum(lines))


def _functions(path: PurePath, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.end_lineno - node.lineno + 1, f"{path}:{node.name}"


def _repeated_classes(trees: Mapping[PurePath, ast.Module]) -> list[str]:
    names = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def measure(root: Path) -> HouseSize:
    """Measure a tree: a checkout, or an unpacked revision."""
    paths = [path.relative_to(root) for path in _files(root, Area(PRODUCT, suffixes=(".py",)))]
    trees: dict[PurePath, ast.Module] = {path: ast.parse(source(root / path)) for path in paths}
    everything = _files(root, Area((*PRODUCT, "tests")))
    return HouseSize(
        areas={name: _area_size(root, area) for name, area in AREAS.items()},
        entries=entries(paths),
        longest_files=sorted(((_line_count(path), str(path.relative_to(root))) for path in everything), reverse=True),
        longest_functions=sorted((one for path in trees for one in _functions(path, trees[path])), reverse=True)[:1],
        repeated_classes=_repeated_classes(trees),
    )
