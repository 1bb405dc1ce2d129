"""Mutants: a module with one small change of meaning, of a kind that a slip of the hand makes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}


@dataclass(frozen=True, order=True)
class Mutant:
    """A change of one place.

    Attributes:
        module: that is changed.
        begin, end: the bytes that are replaced.
        text: what is there instead.
        name: of a change that was written by hand.
    """

    module: str
    begin: int
    end: int
    text: bytes
    name: str = ""

    def applied(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.begin] + self.text + source[self.end :]

    def lines(self, source: bytes) -> tuple[str, str]:
        """Return the lines that change, before and after, without blanks at their ends: what a change is known by."""
        begin, end = source.rfind(b"\n", 0, self.begin) + 1, source.find(b"\n", self.end)
        before, after = source[begin:end], source[begin : self.begin] + self.text + source[self.end : end]
        return before.decode().strip(), after.decode().strip()


def replacement(module: str, source: bytes, old: str, new: str, name: str) -> Mutant:
    """Return a change that was written by hand.

    Raises:
        LookupError: the old text is not there, or more than once.
    """
    if (count := source.count(old.encode())) != 1:
        raise LookupError(f"{module}: {count} places with {old!r}")
    begin = source.index(old.encode())
    return Mutant(module, begin, begin + len(old.encode()), new.encode(), name)


def mutants(module: str, source: bytes) -> list[Mutant]:
    """Return all changes of a module, in the order of their places."""
    return sorted(set(_Finder(module, source).find(ast.parse(source), in_function=False)))


class _Finder:
    """Finds the places of changes; what is for people or for mypy is left alone."""

    def __init__(self, module: str, source: bytes) -> None:
        self._module = module
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def find(self, node: ast.AST, *, in_function: bool) -> Iterator[Mutant]:
        """Yield the changes of a node and of what is in it."""
        for begin, end, text in self._places(node):
            mutant = Mutant(self._module, begin, end, text)
            with suppress(SyntaxError):  # such as an operator that was found in brackets
                compile(mutant.applied(self._source), self._module, "exec")
                yield mutant
        for child in _children(node, in_function=in_function):
            yield from self.find(child, in_function=in_function or isinstance(node, ast.FunctionDef))

    def _places(self, node: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "_logger")))):
                pass
            case ast.Raise() | ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Subscript()]):
                yield (*self._span(node), b"pass")
            case ast.Continue():
                yield (*self._span(node), b"break")
            # Comparisons and negations have changes of their own.
            case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.BoolOp | ast.Call | ast.Name):
                yield (*self._span(test), b"not (%s)" % self._text(test))
            case ast.comprehension(ifs=[*tests]):
                yield from ((*self._span(test), b"True") for test in tests)
            case ast.Compare(left=left, ops=ops, comparators=others):
                for one, op, other in zip([left, *others], ops, others, strict=False):
                    yield self._between(one, other, *_COMPARISONS[type(op)])
            case ast.BoolOp(op=ast.And(), values=values):
                yield from (self._between(*pair, "and", "or") for pair in pairwise(values))
            case ast.BoolOp(op=ast.Or(), values=values):
                yield from (self._between(*pair, "or", "and") for pair in pairwise(values))
            case ast.UnaryOp(op=ast.Not()):
                yield (*self._span(node), b"not " + self._text(node))
            case ast.BinOp(
                left=ast.Name() | ast.Constant() | ast.Call(), op=ast.Add(), right=ast.Constant(value=int())
            ):
                yield self._between(node.left, node.right, "+", "-")
            case ast.BinOp(op=ast.Sub()):
                yield self._between(node.left, node.right, "-", "+")
            case ast.AugAssign(op=ast.Add()):
                yield self._between(node.target, node.value, "+=", "-=")
            case ast.Call(func=ast.Name(id=name) as function) if name in _CALLS:
                yield (*self._span(function), _CALLS[name].encode())
            case ast.Constant(value=bool()):
                yield (*self._span(node), str(not node.value).encode())
            case ast.Constant(value=int(value)):
                yield (*self._span(node), str(value + 1).encode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_column

    def _text(self, node: ast.expr) -> bytes:
        begin, end = self._span(node)
        return self._source[begin:end]

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> tuple[int, int, bytes]:
        begin, end = self._span(left)[1], self._span(right)[0]
        return begin, end, self._source[begin:end].replace(old.encode(), new.encode(), 1)


def _children(node: ast.AST, *, in_function: bool) -> Iterable[ast.AST]:
    """Return what is in a node, without annotations, texts for people and constants of the module."""
    match node:
        case ast.FunctionDef(name="__repr__" | "__str__") | ast.Raise() | ast.JoinedStr() | ast.arg():
            return ()
        case ast.ClassDef(body=body):  # how a dataclass is made shows nowhere
            return body
        case ast.FunctionDef(args=args, body=body):
            return [*args.defaults, *filter(None, args.kw_defaults), *body]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "_logger")))):
            return ()
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return [value] if in_function else ()
        case ast.AnnAssign():
            return ()
    return ast.iter_child_nodes(node)
