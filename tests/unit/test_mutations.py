"""The changes that `make mutate` has by name are possible, and have tests near them."""

from __future__ import annotations

import pytest

from tests.lab.mutations.__main__ import CHANGES, EQUAL, modules_of, named_mutants, near, source
from tests.lab.mutations.mutants import mutants

pytestmark = pytest.mark.xdist_group("import-graph")


def test_every_change_by_name_is_one_change_that_compiles() -> None:
    for mutant in named_mutants():
        compile(mutant.applied(source(mutant.module)), mutant.module, "exec")


def test_every_module_has_tests_near_it() -> None:
    for module in {*(each["module"] for each in CHANGES["named"]), *modules_of(tuple(CHANGES["core"]))}:
        assert near(module)


def test_changes_without_a_meaning_are_still_possible() -> None:
    for module, *lines in EQUAL:
        assert tuple(lines) in {each.lines(source(module)) for each in mutants(module, source(module))}
