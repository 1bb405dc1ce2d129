"""What is fetched has to be what the lock says."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.embedded import artifacts
from tests.lab.embedded.artifacts import ensure_artifacts, locked_sets
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.peers import suite as peers

_GOOD = b"what the lock was made from"


def _no_ivy(*_: object) -> None:
    raise EmbeddedError("not in this test")


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A lock with one jar, an empty cache, and no Maven or Ivy."""
    lock = tmp_path / "lock.json"
    entry = {
        "coordinates": "org.example:thing:1.0",
        "file": "thing-1.0.jar",
        "bytes": len(_GOOD),
        "sha256": hashlib.sha256(_GOOD).hexdigest(),
    }
    lock.write_text(json.dumps({"sets": {"thing": {"roots": ["org.example:thing:1.0"], "artifacts": [entry]}}}))
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(artifacts, "LOCK_FILE", lock)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(artifacts, "_with_ivy", _no_ivy)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    locked_sets.cache_clear()
    yield tmp_path
    locked_sets.cache_clear()


def _maven_that_delivers(root: Path, content: bytes, *, after_failures: int = 0) -> None:
    """A program in Maven's place that puts a file where it was asked to; at first the network may fail it."""
    (root / "delivered").write_bytes(content)
    (root / "failures").write_text("x\n" * after_failures)
    program = root / "bin" / "mvn"
    program.write_text(
        f"#!/bin/sh\nif [ -s {root}/failures ]; then sed -i 1d {root}/failures; echo reset >&2; exit 1; fi\n"
        f'for a; do case $a in -DoutputDirectory=*) cp {root}/delivered "${{a#*=}}/thing-1.0.jar";; esac; done\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def _left_behind(root: Path) -> list[Path]:
    return [path for path in root.joinpath("cache").rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_wrong_checksum_is_refused_by_name_and_leaves_nothing(locked: Path) -> None:
    _maven_that_delivers(locked, b"something else")
    with pytest.raises(
        EmbeddedError, match=r"org\.example:thing:1\.0 from mvn has checksum [0-9a-f]{64}, the lock says"
    ):
        ensure_artifacts("thing")
    assert _left_behind(locked) == []


def test_what_arrives_is_kept_and_not_fetched_again(locked: Path) -> None:
    _maven_that_delivers(locked, _GOOD)
    folder = ensure_artifacts("thing")
    assert [path.name for path in folder.iterdir()] == ["thing-1.0.jar"]
    (locked / "bin" / "mvn").unlink()
    assert ensure_artifacts("thing") == folder


def test_a_connection_that_breaks_off_is_no_failure(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_PAUSE_S", 0.0)
    _maven_that_delivers(locked, _GOOD, after_failures=2)
    assert (ensure_artifacts("thing") / "thing-1.0.jar").read_bytes() == _GOOD


def test_a_resolver_that_keeps_failing_is_reported_once(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_PAUSE_S", 0.0)
    _maven_that_delivers(locked, _GOOD, after_failures=9)
    with pytest.raises(
        EmbeddedError,
        match=r"such as org\.example:thing:1\.0; .* \(mvn: mvn ended with 1: reset; ivy: not in this test\)",
    ):
        ensure_artifacts("thing")
    assert len((locked / "failures").read_text().splitlines()) == 6
    assert _left_behind(locked) == []


def test_another_lock_gives_another_folder(locked: Path) -> None:
    _maven_that_delivers(locked, _GOOD)
    first = ensure_artifacts("thing")
    data = json.loads(artifacts.LOCK_FILE.read_text())
    data["sets"]["thing"]["artifacts"][0]["sha256"] = hashlib.sha256(b"changed").hexdigest()
    artifacts.LOCK_FILE.write_text(json.dumps(data))
    locked_sets.cache_clear()
    _maven_that_delivers(locked, b"changed")
    assert ensure_artifacts("thing") != first


def test_a_missing_maven_is_reported_beside_the_other_resolver(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(locked / "bin"))
    with pytest.raises(EmbeddedError, match="mvn: mvn is not installed; ivy: not in this test"):
        ensure_artifacts("thing")


def test_the_other_resolver_fetches_what_maven_did_not(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_PAUSE_S", 0.0)
    _maven_that_delivers(locked, _GOOD, after_failures=9)
    monkeypatch.setattr(artifacts, "_with_ivy", lambda _, jars: (jars / "thing-1.0.jar").write_bytes(_GOOD))
    assert (ensure_artifacts("thing") / "thing-1.0.jar").read_bytes() == _GOOD


def test_an_unknown_set_is_refused(locked: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"no set 'kafka-0\.8' in lock\.json; there are thing"):
        ensure_artifacts("kafka-0.8")


@pytest.mark.parametrize(
    ("lock_file", "some"), [(artifacts.LOCK_FILE, {"kafka-4.3.1", "ecj"}), (peers.LOCK_FILE, {"peers-4.3.1"})]
)
def test_the_lock_is_exact(lock_file: Path, some: set[str]) -> None:
    text = lock_file.read_text(encoding="utf-8")
    assert "://" not in text
    sets = locked_sets(lock_file)
    assert some <= sets.keys()
    for name, jars in sets.items():
        assert len({jar.file for jar in jars}) == len(jars), name
        for jar in jars:
            _, artifact, version, classifier = jar.parts
            assert jar.file == f"{artifact}-{version}{'-' + classifier if classifier else ''}.jar"
            assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
            assert not set(version) & set("[](),+"), f"{jar.coordinates} is a range"
            assert "SNAPSHOT" not in version


def test_the_locked_sets_hold_what_is_run() -> None:
    names = {jar.parts[1] for jar in locked_sets()["kafka-4.3.1"]}
    assert {"kafka_2.13", "kafka-tools", "connect-runtime", "connect-file", "log4j-slf4j-impl"} <= names
