"""The lock of a log dir, in the moment in which its broker starts."""

from __future__ import annotations

import fcntl
from contextlib import ExitStack
from pathlib import Path

import pytest

from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.broker_lock import broker_stopped, is_stopped
from tests.topic_ids.brokers import holding


@pytest.mark.parametrize("restarted", [False, True])
def test_a_broker_that_starts_while_its_lock_is_taken(
    restarted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the file that was made for the lock, or the one before it was removed as it stopped."""
    (tmp_path / "meta.properties").touch()
    lock, real = tmp_path / ".lock", fcntl.lockf
    if restarted:
        lock.touch()
    with ExitStack() as stack:

        def late(handle: int, how: int) -> None:
            monkeypatch.undo()
            if restarted:
                lock.unlink()
                lock.touch()
            stack.enter_context(holding([lock]))
            real(handle, how)

        monkeypatch.setattr(fcntl, "lockf", late)
        with pytest.raises(TopicIdRepairError, match="the broker runs"), broker_stopped([str(tmp_path)]):
            pytest.fail("the broker runs")
        assert not is_stopped([str(tmp_path)])  # its lock file is still there
    assert is_stopped([str(tmp_path)])
