"""The hybrid clock: no write is lost that clocks a minute apart may make, and nothing older is believed again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect_share.sealing.cipher import LATEST_MS
from connect_share.sealing.seals import LEEWAY_MS, Freshness

NOW = 1_700_000_000_000


def at(now_ms: int) -> Freshness:
    return Freshness(lambda: now_ms)


def test_what_is_sealed_is_later_than_all_that_was_read_or_sealed() -> None:
    clock = at(NOW)
    assert [clock.next_ms(b"k") for _ in range(3)] == [NOW, NOW + 1, NOW + 2]
    assert clock.next_ms(b"other") == NOW
    clock.accept(b"k", NOW + 500)  # another worker's clock is ahead
    assert clock.next_ms(b"k") == NOW + 501


def test_a_clock_that_goes_back_loses_no_write() -> None:
    now = [NOW]
    clock = Freshness(lambda: now[0])
    reader = at(NOW)
    assert reader.accept(b"k", clock.next_ms(b"k"))
    now[0] -= 3_600_000
    assert reader.accept(b"k", clock.next_ms(b"k"))


def test_older_than_the_newest_by_more_than_a_minute_is_refused() -> None:
    reader = at(0)
    assert reader.accept(b"k", NOW)
    assert reader.accept(b"k", NOW - LEEWAY_MS)
    assert not reader.accept(b"k", NOW - LEEWAY_MS - 1)
    assert reader.accept(b"other", 0)
    assert reader.newest() == {b"k": NOW, b"other": 0}


def test_what_was_sealed_and_never_written_refuses_nothing() -> None:
    clock = at(NOW)
    clock.next_ms(b"k")
    assert clock.accept(b"k", NOW - 3_600_000)


def test_who_restores_refuses_what_the_saved_one_refuses() -> None:
    before, after = at(NOW), at(NOW)
    before.accept(b"k", NOW)
    after.restore(before.newest())
    assert not after.accept(b"k", NOW - LEEWAY_MS - 1)
    assert after.next_ms(b"k") == NOW + 1


def test_the_end_of_time_is_not_passed() -> None:
    clock = at(NOW)
    clock.accept(b"k", LATEST_MS)
    assert clock.next_ms(b"k") == LATEST_MS


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-29_000, 29_000), st.booleans()), max_size=40))
def test_workers_whose_clocks_differ_by_less_than_a_minute_lose_no_write(steps: list[tuple[int, int, bool]]) -> None:
    """Whoever writes, whatever its clock says and whether it has read the others or not: every reader takes it."""
    skew = [0, 0, 0]
    workers = [Freshness(lambda number=number: NOW + skew[number]) for number in range(3)]  # type: ignore[misc]
    reader = at(NOW)
    unread: list[list[int]] = [[], [], []]
    for number, ahead_ms, reads in steps:
        skew[number] = ahead_ms
        if reads:
            assert all(workers[number].accept(b"k", written_ms) for written_ms in unread[number])
            unread[number].clear()
        written_ms = workers[number].next_ms(b"k")
        assert reader.accept(b"k", written_ms)
        for waiting in unread:
            waiting.append(written_ms)
