"""The checkpoint's file and the proof that it may be used."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share.errors import ConfigError
from connect_share.kafka.descriptions import TopicDescription
from connect_share.kafka.facts import TopicFacts
from connect_share.storage import ConnectStorage, checkpoint
from connect_share.storage.checkpoint import (
    Checkpoint,
    CheckpointRejected,
    TopicCheckpoint,
    read_checkpoint,
    require_usable,
    write_checkpoint,
)
from tests.support.sealed import sharing_worker

SECRET = "hunter2"
PART = TopicCheckpoint(
    topic="c",
    topic_id="AAAA",
    isolation="read_committed",
    log_starts={0: 0, 1: 5},
    positions={0: 10, 1: 7},
    leader_epochs={0: 3, 1: 4},
    state={"password": SECRET, "number": 1e300},
)
WHOLE = Checkpoint(cluster_group_id="g", taken_at_ms=1_000, config=PART, status=PART, offset=PART)
NOW = TopicFacts(
    TopicDescription("c", "AAAA", ()), ends={0: 12, 1: 7}, starts={0: 0, 1: 5}, leader_epochs=PART.leader_epochs
)


NESTED: Any = "x"
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(("state", "error"), [(NESTED, OSError), (object(), TypeError)])
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, state: Any, error: type[Exception]) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(CheckpointRejected, match="there is none yet"):
        read_checkpoint(path)
    write_checkpoint(path, WHOLE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(error):
        write_checkpoint(path, WHOLE.model_copy(update={"config": PART.model_copy(update={"state": state})}))
    assert read_checkpoint(path) == WHOLE


def test_what_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(path, WHOLE)
    path.chmod(0o660)  # as volumes of containers have it
    assert read_checkpoint(path) == WHOLE
    path.chmod(0o606)
    with pytest.raises(CheckpointRejected, match="every user may write to it"):
        read_checkpoint(path)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12_345, -1)
        with pytest.raises(CheckpointRejected, match="it belongs to another user"):
            read_checkpoint(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CheckpointRejected, match="it is no regular file"):
        read_checkpoint(path)
    with pytest.raises(CheckpointRejected, match="cannot be read"):
        read_checkpoint(tmp_path)


def test_a_file_that_is_too_long_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(path, WHOLE)
    monkeypatch.setattr(checkpoint, "LARGEST_BYTES", path.stat().st_size - 300)
    with pytest.raises(CheckpointRejected, match="damaged"):
        read_checkpoint(path)
    with pytest.raises(OSError, match="longer than"):
        write_checkpoint(tmp_path / "other", WHOLE)


def test_how_often_is_refused_without_a_file() -> None:
    with pytest.raises(ConfigError, match="checkpoint_every_s has no effect without checkpoint="):
        ConnectStorage(sharing_worker("g"), checkpoint_every_s=1)
    for seconds in (0, -1, math.nan, math.inf):
        with pytest.raises(ConfigError, match="a number of seconds above 0"):
            ConnectStorage(sharing_worker("g"), checkpoint="file", checkpoint_every_s=seconds)


@given(
    state=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_any_state_comes_back_exactly(tmp_path: Path, state: Any) -> None:
    write_checkpoint(tmp_path / "c", WHOLE.model_copy(update={"config": PART.model_copy(update={"state": state})}))
    found = read_checkpoint(tmp_path / "c")
    assert found is not None
    assert repr(found.config.state) == repr(state)


@given(at=st.integers(0, 10_000), change=st.integers(1, 255))
def test_a_changed_byte_is_noticed(tmp_path: Path, at: int, change: int) -> None:
    path = tmp_path / "c"
    write_checkpoint(path, WHOLE)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= change
    path.write_bytes(data)
    with pytest.raises(CheckpointRejected) as caught:
        read_checkpoint(path)
    assert SECRET not in str(caught.value)


@given(data=st.binary(max_size=400))
@example(data=b"")
def test_anything_else_is_rejected(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(data)
    with pytest.raises(CheckpointRejected):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.pop("config"),
        lambda plain: plain.update(more=SECRET),
        lambda plain: plain.update(taken_at_ms=SECRET),
        lambda plain: plain["status"].update(positions={SECRET: 1}),
        lambda plain: plain["status"].update(positions=[SECRET]),
        lambda plain: plain["status"].update(positions={"0": 2**70, "1": 7}),
        lambda plain: plain["status"].update(log_starts={str(2**70): 0, "1": 5}),
        lambda plain: plain.update(config=SECRET),
        lambda plain: plain.clear(),
    ],
)
def test_good_sums_of_something_else(tmp_path: Path, change: Any) -> None:
    import hashlib

    plain = json.loads(json.dumps(WHOLE.model_dump()))
    change(plain)
    body = json.dumps(plain).encode()
    head = f"connect-share/checkpoint/1 bytes={len(body)} sha256={hashlib.sha256(body).hexdigest()}\n"
    path = tmp_path / "c"
    path.write_bytes(head.encode() + body)
    with pytest.raises(CheckpointRejected, match="not valid for this version") as caught:
        read_checkpoint(path)
    assert SECRET not in str(caught.value)
    path.write_bytes(head.replace("/1 ", "/2 ").encode() + body)
    with pytest.raises(CheckpointRejected, match="checkpoint/2"):
        read_checkpoint(path)


def test_the_same_topic_that_has_grown_is_fine() -> None:
    require_usable(PART, NOW, isolation="read_committed")


@pytest.mark.parametrize(
    ("now", "isolation", "reason"),
    [
        (replace(NOW, description=TopicDescription("d", "AAAA", ())), "read_committed", "not of d"),
        (replace(NOW, description=TopicDescription("c", None, ())), "read_committed", "no id"),
        (replace(NOW, description=TopicDescription("c", "AAAB", ())), "read_committed", "created again"),
        (NOW, "read_uncommitted", "was read"),
        (replace(NOW, starts={0: 0, 1: 5, 2: 0}, ends={0: 12, 1: 7, 2: 0}), "read_committed", "partitions"),
        (replace(NOW, starts={0: 0}, ends={0: 12}), "read_committed", "partitions"),
        (replace(NOW, leader_epochs={0: 4, 1: 4}), "read_committed", "leader"),
        (replace(NOW, leader_epochs={0: 3}), "read_committed", "leader"),
        (replace(NOW, starts={0: 0, 1: 6}), "read_committed", "were deleted"),
        (replace(NOW, starts={0: 0, 1: 4}), "read_committed", "were deleted"),
        (replace(NOW, ends={0: 12, 1: 6}), "read_committed", "truncated"),
        (replace(NOW, ends={0: 9, 1: 7}), "read_committed", "truncated"),
    ],
)
def test_reasons_for_a_full_read(now: TopicFacts, isolation: str, reason: str) -> None:
    with pytest.raises(CheckpointRejected, match=reason):
        require_usable(PART, now, isolation=isolation)
