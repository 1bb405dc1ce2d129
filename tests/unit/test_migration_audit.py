"""What our benchmark of moves calls missing."""

from __future__ import annotations

from collections import Counter

from tests.lab.benchmarks.migration_audit import _without


def test_only_what_a_later_record_of_its_key_supersedes_may_be_gone() -> None:
    expected = [(1, 10), (2, 20), (1, 11), (1, 10), (3, 30)]
    found = Counter({10: 1, 30: 1, 99: 1})
    assert _without(found, expected) == 1  # of key 2; the cleaner may take the first two of key 1
    assert +found == Counter({99: 1})  # was not expected
    assert _without(Counter({11: 1, 20: 1, 30: 1}), expected) == 1  # the newest of key 1
