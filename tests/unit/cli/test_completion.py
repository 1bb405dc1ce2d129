"""Completion in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = {"connect-share": "connect_share", "connect-share-migrate": "migrator"}
ASK = """
source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\) .*/\\1/') "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(program: str, folder: Path, *words: str) -> set[str]:
    script = subprocess.run(
        [sys.executable, "-m", PROGRAMS[program], "--print-completion", "bash"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    (folder / "completion").write_text(script)
    command = ["bash", "-c", ASK, "bash", str(folder / "completion"), program, *words]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        ("connect-share", ["exp"], {"export", "exporter"}),
        ("connect-share", ["check", "or"], {"order", "orphans"}),
        ("connect-share", ["get", "connectors", "--wa"], {"--watch"}),
        ("connect-share-migrate", ["ro"], {"rollback"}),
    ],
)
def test_commands_and_options_are_completed(program: str, words: list[str], found: set[str], tmp_path: Path) -> None:
    assert completed(program, tmp_path, *words) == found


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "shtab.py").write_text("raise ImportError\n")
    ran = subprocess.run(
        [sys.executable, "-m", "connect_share", "--print-completion", "zsh"],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 2
    assert "pip install 'connect-share[completion]'" in ran.stderr
