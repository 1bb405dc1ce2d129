"""Reading topics in which anybody may have invented groups."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from connect_share.cli.__main__ import main
from connect_share.contents import groups as contents
from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KeyRing
from connect_share.sealing.cipher import Cipher
from connect_share.worker_config import WorkerConfig
from tests.support.checked import folded
from tests.support.sealed import GROUP, KEYS, key_text, sharing_worker


def test_invented_groups_are_folded_up_to_a_limit_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_GROUPS", 3)
    records = [Record("t", 0, at, 0, b'g%d.["c",{"a":1}]' % (at % 5), b"{}") for at in range(20)]
    seen = folded(TopicType.OFFSET, records)
    assert seen.records == {"g0": 4, "g1": 4, "g2": 4}
    assert seen.others == 8
    (note,) = seen.notes
    assert "t has more than 3 groups: 8 record(s)" in note
    asked_for = folded(TopicType.OFFSET, records, groups=[ClusterGroupId("g4")])
    assert (asked_for.records, asked_for.notes) == ({"g4": 4}, [])


_OFFSET = b'["c",{"f":1}]'


def _offsets(*values: bytes | None) -> list[Record]:
    key = prefix_key(GROUP, _OFFSET)
    return [Record("offsets", 0, at, 0, key, value) for at, value in enumerate(values)]


def _sealed(position: int, keys: KeyRing = KEYS) -> bytes:
    return Cipher(keys, TopicType.OFFSET).seal(
        prefix_key(GROUP, _OFFSET), b'{"position":%d}' % position, 1_000 + position
    )


def _shown(records: list[Record], worker: WorkerConfig | None) -> tuple[Mapping[str, object] | None, str]:
    seen = folded(TopicType.OFFSET, records, topic="offsets", worker=worker)
    return seen.groups[GROUP].offset("c", {"f": 1}), "".join(seen.notes)


def test_the_worker_file_of_a_sealed_group_opens_its_values() -> None:
    worker = sharing_worker(keys=key_text(7))
    assert _shown(_offsets(_sealed(1), _sealed(2)), worker) == ({"position": 2}, "")
    shown, note = _shown(_offsets(_sealed(1), b'{"position":9}', None, _sealed(3, KeyRing.parse(key_text(8)))), worker)
    assert shown == {"position": 1}
    assert "com.acme were refused (1 PLAIN, 1 TOMBSTONE, 1 UNKNOWN_KEY)" in note


@pytest.mark.parametrize("worker", [None, sharing_worker("other")], ids=["no worker file", "another group's"])
@pytest.mark.parametrize("beside", [(), (b'{"position":9}',)], ids=["all sealed", "a plain one behind"])
def test_no_state_of_a_sealed_group_is_shown_without_its_worker_file(
    worker: WorkerConfig | None, beside: tuple[bytes, ...]
) -> None:
    """A plain value beside sealed ones may be old, or forged."""
    shown, note = _shown(_offsets(_sealed(1), *beside), worker)
    assert shown is None
    assert "offsets has sealed values of com.acme: only what the keys of such records say is shown" in note


def test_a_group_without_keys_is_shown_as_its_workers_see_it() -> None:
    """A co-tenant cannot hide a plain group from its owner by one record that looks sealed."""
    shown, note = _shown(_offsets(b'{"position":9}', _sealed(1)), sharing_worker())
    assert shown == {"position": 9}
    assert "refused (1 NO_KEYS)" in note


def test_a_new_key_opens_what_it_seals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new"]) == 0
    text, nothing = capsys.readouterr()
    assert nothing == ""
    assert _shown(_offsets(_sealed(5, KeyRing.parse(text.strip()))), sharing_worker(keys=text.strip())) == (
        {"position": 5},
        "",
    )
    assert main(["keys", "new", "--output", "json"]) == 0
    assert KeyRing.parse(json.loads(capsys.readouterr().out)["key"]) != KeyRing.parse(text.strip())
