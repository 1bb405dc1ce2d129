"""Module names of 0.3 stay importable for one version."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from connect_share._old_modules import NEW_NAMES


@pytest.mark.parametrize(("old", "new"), NEW_NAMES.items())
def test_an_old_name_is_the_new_module(old: str, new: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {new}") as warned:
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__name__ == new
    assert len(warned) == 1


def test_the_warning_names_the_line_that_imports() -> None:
    program = "import connect_share\n\nfrom connect_share.herder import RestartPlan\nprint(RestartPlan.__module__)"
    run = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "connect_share.runtime.restart_plan\n"
    assert "<string>:3: DeprecationWarning" in run.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("connect_share.no_such_module")
