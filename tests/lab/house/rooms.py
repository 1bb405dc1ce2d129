"""Rooms of the product: entries at the top of ``connect_share``, and the other packages; which room imports which."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Final

PRODUCT: Final = ("connect_share", "migrator", "spark_jobs")
# At the top level, but no entries: what users import from there, beside the package itself, and old names of modules.
NO_ENTRIES: Final = frozenset({"__init__", "tasks", "pytest_plugin", "_old_modules"})


@dataclass(frozen=True, slots=True)
class Rooms:
    """Rooms and their imports.

    Attributes:
        arrows: pairs of rooms of which the first imports from the second, for types only or late too.
        floors: rooms that lie one over the other on the longest way down; rooms that import each other are on one floor.
        circles: pairs of rooms that import each other, directly or through others.
    """

    names: set[str]
    arrows: set[tuple[str, str]]
    floors: int
    circles: list[tuple[str, str]]


def module_name(path: PurePath) -> str:
    """Return the dotted name of a file."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def source(path: Path) -> str:
    """Return the text of a module, with that of its stub, where a package says for type checkers what it hands on."""
    stub = path.with_suffix(".pyi")
    return path.read_text(encoding="utf-8") + (stub.read_text(encoding="utf-8") if stub.exists() else "")


def _room(module: str) -> str:
    package, _, rest = module.partition(".")
    return (rest.partition(".")[0] or "__init__") if package == "connect_share" else package


def imported_names(tree: ast.Module) -> set[str]:
    """Return what a module imports: modules, and names in modules, dotted; for types only or late too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def module_of(name: str, modules: Container[str]) -> str:
    """Return the module that a dotted name is, or is in; empty: none of these."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _reached(arrows: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    left = [start]
    while left:
        new = arrows[left.pop()] - reached
        reached |= new
        left.extend(new)
    return reached


def find_rooms(trees: Mapping[PurePath, ast.Module]) -> Rooms:
    """Find the rooms and their imports in the syntax trees of a product."""
    modules = {module_name(path): tree for path, tree in trees.items()}
    imports = {
        module: {module_of(name, modules) for name in imported_names(tree)} - {""} for module, tree in modules.items()
    }
    below: dict[str, set[str]] = {_room(module): set() for module in modules}
    for module, imported in imports.items():
        below[_room(module)] |= {_room(name) for name in imported} - {_room(module)}
    reached = {room: _reached(below, room) for room in below}

    @cache
    def floor(room: str) -> int:
        return 1 + max((floor(other) for other in below[room] if room not in reached[other]), default=0)

    return Rooms(
        names=set(below),
        arrows={(room, other) for room, others in below.items() for other in others},
        floors=max(map(floor, below), default=0),
        circles=[(a, b) for a in sorted(below) for b in sorted(reached[a]) if a < b and a in reached[b]],
    )


def entries(paths: Iterable[PurePath]) -> list[str]:
    """Return the names at the top level of ``connect_share``, without public modules and old names."""
    return sorted({PurePath(path.parts[1]).stem for path in paths if path.parts[0] == "connect_share"} - NO_ENTRIES)
