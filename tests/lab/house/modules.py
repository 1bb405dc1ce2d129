"""Modules of the product, what each imports, and the entries at the top of ``connect_share``."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable
from pathlib import Path, PurePath
from typing import Final

PRODUCT: Final = ("connect_share", "migrator", "spark_jobs")
# At the top level, but no entries: what users import from there, beside the package itself, and old names of modules.
NO_ENTRIES: Final = frozenset({"__init__", "tasks", "pytest_plugin", "_old_modules"})


def module_name(path: PurePath) -> str:
    """Return the dotted name of a file."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def source(path: Path) -> str:
    """Return the text of a module, with that of its stub, where a package says for type checkers what it hands on."""
    stub = path.with_suffix(".pyi")
    return path.read_text(encoding="utf-8") + (stub.read_text(encoding="utf-8") if stub.exists() else "")


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


def entries(paths: Iterable[PurePath]) -> list[str]:
    """Return the names at the top level of ``connect_share``, without public modules and old names."""
    return sorted({PurePath(path.parts[1]).stem for path in paths if path.parts[0] == "connect_share"} - NO_ENTRIES)
