"""What others have, compared by a sample where it is much."""

from __future__ import annotations

import pytest

from connect_share.backup.rewrite import Sample

ODD = 0x9E3779B97F4A7C15


def sample(numbers: range) -> Sample:
    found = Sample()
    for number in numbers:
        found.add(number * ODD % 2**64)
    return found


@pytest.mark.parametrize(("most", "kept", "counted"), [(20_000, 10_000, 10_000), (100, 79, 10_112)])
def test_much_is_compared_by_a_sample(monkeypatch: pytest.MonkeyPatch, most: int, kept: int, counted: int) -> None:
    monkeypatch.setattr("connect_share.backup.rewrite._MOST_HASHES", most)
    before, few = sample(range(10_000)), sample(range(9_000))
    assert (len(before.hashes), len(before)) == (kept, counted)
    assert len(before.without(few)) == pytest.approx(1_000, rel=0.1)
    assert not before.without(few, sample(range(9_000, 10_000)))
    assert not before.without(sample(range(30_000)))
    assert len(sample(range(90)).without(sample(range(80)))) == 10
