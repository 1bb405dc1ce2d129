"""Which Java is taken."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_a_program_that_is_missing_has_no_version(tmp_path: Path) -> None:
    assert java_runtime.java_version(tmp_path / "java") is None


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java(tmp_path / "home", 'openjdk version "17.0.1"')
    other = _java(tmp_path / "other", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    assert java_runtime.system_java() == home


def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _java(tmp_path / "home", 'openjdk version "11.0.1"')
    other = _java(tmp_path / "other", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    assert java_runtime.java_command() == other


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
