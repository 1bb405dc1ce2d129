"""Processes that benchmarks time from their start."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.benchmark.starts import run_python
from tests.lab.benchmarks.process_cost import measured

ASKED = 'import json, sys; print(json.dumps({"compiles each time": sys.dont_write_bytecode}))'


@pytest.mark.parametrize("run", [lambda: run_python("asked")[0], lambda: measured([sys.executable, "-m", "asked"])[1]])
def test_they_start_as_an_installed_program_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Callable[[], str]
) -> None:
    (tmp_path / "asked.py").write_text(ASKED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert json.loads(run()) == {"compiles each time": False}
