"""The changes that `make mutate` has by name are possible."""

from __future__ import annotations

from tests.lab.mutations.__main__ import EQUAL, named_mutants, source
from tests.lab.mutations.mutants import mutants


def test_every_change_by_name_is_one_change_that_compiles() -> None:
    for mutant in named_mutants():
        compile(mutant.applied(source(mutant.module)), mutant.module, "exec")


def test_changes_without_a_meaning_are_still_possible() -> None:
    for module in {module for module, *_ in EQUAL}:
        possible = {each.lines(source(module)) for each in mutants(module, source(module))}
        assert {(old, new) for of, old, new in EQUAL if of == module} <= possible
