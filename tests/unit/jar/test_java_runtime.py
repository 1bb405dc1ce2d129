"""Which Java is taken, and what a killed process leaves in the cache folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_share.files import cache_folder, run_folder
from connect_share.jar import java_runtime


@pytest.fixture(autouse=True)
def _fresh_lookup() -> Iterator[None]:
    java_runtime.system_java.cache_clear()
    yield
    java_runtime.system_java.cache_clear()


def _java(home: Path, version_line: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('openjdk version "17.0.21" 2026-10-20', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("no Java at all", None),
    ],
)
def test_java_version(tmp_path: Path, line: str, expected: int | None) -> None:
    assert java_runtime.java_version(_java(tmp_path, line)) == expected


@pytest.mark.parametrize(("number", "taken"), [("17.0.1", "home"), ("11.0.1", "other")])
def test_java_home_wins_over_the_path_unless_it_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, taken: str
) -> None:
    javas = {"home": _java(tmp_path / "home", f'openjdk version "{number}"')}
    javas["other"] = _java(tmp_path / "other", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{javas['other'].parent}:/usr/bin:/bin")
    assert java_runtime.java_command() == javas[taken]


def test_no_java_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java_runtime, "_wheel_home", lambda: None)
    with pytest.raises(java_runtime.JavaMissingError, match=r"no Java 17 or later was found; install .* pip install"):
        java_runtime.java_command()
    with pytest.raises(java_runtime.JavaMissingError, match="no Java 17 or later"):
        java_runtime.java_home_for_spark()


def test_spark_gets_a_wrapper_on_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's JRE lacks a module that PySpark asks for on its command line."""
    wheel = tmp_path / "wheel"
    program = wheel / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java_runtime, "_wheel_home", lambda: wheel)
    assert java_runtime.java_command() == program
    home = java_runtime.java_home_for_spark()
    assert home is not None
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", "Main"]
    done = subprocess.run([str(home / "bin" / "java"), *asked], capture_output=True, text=True, check=True)
    assert done.stdout == "<-Xmx1g><-Dname=two words><Main>"
    assert java_runtime.java_home_for_spark() == home


def test_spark_keeps_the_machines_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _java(tmp_path / "home", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java_runtime.java_home_for_spark() is None


_OTHER = """
import time
from connect_share.files import run_folder
folder = run_folder("other")
(folder / "data").write_text("x")
print(folder, flush=True)
time.sleep(300)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_the_cache_follows_the_users_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "connect-share"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "connect-share"


def test_folders_of_the_living_stay_and_those_of_the_killed_go() -> None:
    mine = run_folder("mine")
    with subprocess.Popen([sys.executable, "-c", _OTHER], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        second = run_folder("mine")
        assert mine.exists()
        assert second != mine
        assert (theirs / "data").exists()
        other.kill()
    run_folder("mine")
    assert mine.exists()
    assert second.exists()
    assert not theirs.exists()


def test_a_folder_that_is_being_removed_is_left_to_who_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock file is gone when it is to be looked at: making it anew would fail the removal, as of a folder not empty."""
    theirs = run_folder("theirs").parent / "other-1"
    theirs.mkdir()
    (theirs / "data").write_text("x")
    listed = Path.glob

    def glob(folder: Path, pattern: str) -> Iterator[Path]:
        yield from listed(folder, pattern)
        yield theirs / ".owner"

    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", glob)
        run_folder("mine")
    assert [path.name for path in theirs.iterdir()] == ["data"]
