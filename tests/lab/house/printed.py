"""The commands that the product prints, as its code makes them: what docs/remedies.md has to list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
_MADE_BY = ("command_line", "kafka_tool", "plan_command", "command")
ANYTHING = "…"
_PROGRAM = re.compile(r"\b(?:connect-share(?:-migrate)? [a-z]+(?![a-z_])|kafka-[a-z-]+(?:\.sh)? --)")


def product_files() -> list[Path]:
    """The files of the core; the topic ids print steps of their own, which their drill runs."""
    every = [path for folder in ("connect_share", "migrator", "spark_jobs") for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in every if "topic_ids" not in path.parts)


@cache
def printed_commands() -> dict[str, list[str]]:
    """Every command that the code makes, with what it fills in as an ellipsis, and where."""
    found: dict[str, list[str]] = {}
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and (command := _command(node)) is not None:
                found.setdefault(command, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def _command(node: ast.Call) -> str | None:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    words = [word for argument in node.args for word in _words(argument)]
    if name not in _MADE_BY or not words or words[0].startswith(ANYTHING) or node.keywords or words[1:2] == [ANYTHING]:
        return None
    if name == "kafka_tool":
        words = [f"{words[0]}.sh", "--bootstrap-server", ANYTHING, *words[1:]]
    elif name != "command_line":
        words = ["connect-share-migrate", words[0], *(words[1:] or [ANYTHING])]
    return " ".join(words)


def _words(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Starred):
        inner = node.value
        yield from (
            (word for each in inner.elts for word in _words(each))
            if isinstance(inner, ast.Tuple | ast.List)
            else [ANYTHING]
        )
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else ANYTHING for each in node.values)
    else:
        yield ANYTHING


def commands_made_elsewhere() -> list[str]:
    """Texts that name a command and were not made by one of these functions; docstrings, help and examples apart."""
    found = []
    for path in product_files():
        tree = ast.parse(path.read_text("utf-8"))
        passed = {id(each) for node in ast.walk(tree) for root in _not_printed(node) for each in ast.walk(root)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in passed else None
            if isinstance(text, str) and _PROGRAM.search(text):
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {text.strip()}")
    return found


def _not_printed(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant) and str(node.value).lstrip().startswith("examples:"):
        yield node  # the epilog of a program
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node
    elif isinstance(node, ast.keyword) and node.arg in ("examples", "epilog", "help", "about"):
        yield node.value
