"""The collector is off while topics are read, and afterwards as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from connect_share.log.collector import paused_collector


@pytest.fixture(autouse=True)
def _as_found() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_left_as_it_was_found(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with paused_collector():
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_the_last_of_several_readers_switches_it_on_again() -> None:
    gc.enable()
    first, second = paused_collector(), paused_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_failing_reader_switches_it_on_again() -> None:
    gc.enable()
    with pytest.raises(RuntimeError), paused_collector():
        raise RuntimeError
    assert gc.isenabled()
