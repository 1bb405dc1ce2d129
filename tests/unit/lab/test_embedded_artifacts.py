"""What is fetched has to be what the lock says."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.lab.embedded import artifacts
from tests.lab.embedded.artifacts import ensure_artifacts, locked_sets
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.peers import suite as peers

_GOOD = b"what the lock was made from"


def _delivered(monkeypatch: pytest.MonkeyPatch, folder: Path, content: bytes) -> Path:
    """Have Maven deliver this for the one jar of a lock, and return the lock."""
    lock = folder / "lock.json"
    entry = {
        "coordinates": "org.example:thing:1.0",
        "file": "thing-1.0.jar",
        "bytes": len(_GOOD),
        "sha256": hashlib.sha256(_GOOD).hexdigest(),
    }
    lock.write_text(json.dumps({"sets": {"thing": {"roots": ["org.example:thing:1.0"], "artifacts": [entry]}}}))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(artifacts, "_with_maven", lambda _, jars: (jars / "thing-1.0.jar").write_bytes(content))
    return lock


def test_a_wrong_checksum_is_refused_by_name_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = _delivered(monkeypatch, tmp_path, b"something else")
    with pytest.raises(
        EmbeddedError, match=r"org\.example:thing:1\.0 from mvn has checksum [0-9a-f]{64}, the lock says"
    ):
        ensure_artifacts("thing", lock)
    assert [path for path in tmp_path.rglob("*.jar") if path.is_file()] == []


def test_another_lock_gives_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ensure_artifacts("thing", _delivered(monkeypatch, tmp_path, _GOOD))
    assert (first / "thing-1.0.jar").read_bytes() == _GOOD
    changed, text = tmp_path / "changed.json", (tmp_path / "lock.json").read_text()
    changed.write_text(text.replace(hashlib.sha256(_GOOD).hexdigest(), hashlib.sha256(b"changed").hexdigest()))
    with pytest.raises(EmbeddedError, match="checksum"):
        ensure_artifacts("thing", changed)


@pytest.mark.parametrize(
    ("lock_file", "some"), [(artifacts.LOCK_FILE, {"kafka-4.3.1", "ecj"}), (peers.LOCK_FILE, {"peers-4.3.1"})]
)
def test_the_lock_is_exact(lock_file: Path, some: set[str]) -> None:
    assert "://" not in lock_file.read_text(encoding="utf-8")
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
