"""Lines and files of each part, the longest functions, and small modules with one importer. Reads files only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PRODUCT: Final = ("connect_share", "migrator", "spark_jobs")
LAB: Final = "tests/lab"
SMALL_LINES: Final = 40

# Part: folders, and suffixes of the files that count.
PARTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "product": (PRODUCT, (".py", ".java")),
    "  of it connect_share": (("connect_share",), (".py", ".java")),
    "  of it migrator": (("migrator",), (".py", ".java")),
    "  of it spark_jobs": (("spark_jobs",), (".py", ".java")),
    "templates": (PRODUCT, (".html", ".j2", ".css", ".md")),
    "lab": ((LAB,), (".py", ".java")),
    "tests": (("tests",), (".py", ".java")),
    "docs": (("docs", "README.md"), (".md",)),
}


@dataclass(frozen=True, slots=True)
class PartSize:
    """Size of one part; blank lines and comments count."""

    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class HouseSize:
    """What :func:`measure` finds in one tree.

    Attributes:
        parts: sizes by the names of :data:`PARTS`.
        longest_functions: lines and place of the longest functions of the product, longest first.
        long_files: product files of more than 400 lines.
        single_importer_modules: product modules of less than 40 lines that one other module imports.
    """

    parts: dict[str, PartSize]
    longest_functions: list[tuple[int, str]]
    long_files: list[str]
    single_importer_modules: list[str]


def _files(root: Path, places: tuple[str, ...], suffixes: tuple[str, ...]) -> Iterator[Path]:
    for place in places:
        path = root / place
        candidates = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (one for one in candidates if one.suffix in suffixes and "__pycache__" not in one.parts)


def _line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _part(root: Path, name: str) -> PartSize:
    places, suffixes = PARTS[name]
    files = list(_files(root, places, suffixes))
    if name == "tests":
        files = [file for file in files if not file.is_relative_to(root / LAB)]
    return PartSize(len(files), sum(map(_line_count, files)))


def _functions(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.end_lineno - node.lineno + 1, f"{path}:{node.name}"


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def measure(root: Path) -> HouseSize:
    """Measure a tree: a checkout, or an unpacked revision."""
    trees = {path.relative_to(root): ast.parse(path.read_bytes()) for path in _files(root, PRODUCT, (".py",))}
    imports = {path: _imports(tree) for path, tree in trees.items()}
    single = []
    for path in trees:
        module = ".".join(path.with_suffix("").parts)
        importers = [other for other, names in imports.items() if other != path and module in names]
        if _line_count(root / path) < SMALL_LINES and len(importers) == 1 and not path.name.startswith("__"):
            single.append(str(path))
    functions = sorted((one for path, tree in trees.items() for one in _functions(path, tree)), reverse=True)
    return HouseSize(
        parts={name: _part(root, name) for name in PARTS},
        longest_functions=functions[:5],
        long_files=[f"{path} ({lines})" for path in trees if (lines := _line_count(root / path)) > 400],
        single_importer_modules=single,
    )
