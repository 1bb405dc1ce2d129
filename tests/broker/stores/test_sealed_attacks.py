"""Each thing that a co-tenant may try on the topics of a sealed group, with the cleaner on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from connect_share.model.status import State
from connect_share.storage import ConnectStorage
from tests.support.sealed_attacks import ATTACKS, Attack, Attacked, Late
from tests.support.sealed_stores import FILE, SECRET, believed, fresh, put, refused, worker
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

pytestmark = pytest.mark.broker

NAMES = {
    TopicType.CONFIG: b"group-a.connector-%s",
    TopicType.STATUS: b"group-a.status-connector-%s",
    TopicType.OFFSET: b'group-a.["%s",{"filename":"x.txt"}]',
}
ONE_PARTITION = {"offset_storage_partitions": "1", "status_storage_partitions": "1"}


def attacked(shared: Any) -> list[Attacked]:
    """The records of the connector ``c``; nothing on the topics can be read by others."""
    found = []
    for topic_type, name in NAMES.items():
        values = dict(shared.read(topic_type.value))
        assert not any(SECRET in value for value in values.values())
        found.append(Attacked(topic_type, name % b"c", name % b"evil", values[name % b"c"], values[name % b"d"]))
    return found


def cleaned(shared: Any, good: list[Attacked]) -> bool:
    """Give the cleaner something to do; return whether it has taken the good records."""
    for at in good:
        shared.write(at.topic_type.value, [(b"group-b.target-state-x", b"{}")])
    return not any((at.key, at.good) in shared.read(at.topic_type.value) for at in good)


@pytest.mark.parametrize("row", ATTACKS)
def test_what_others_write_is_never_believed(
    shared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, row: str
) -> None:
    """Who was there, or has a checkpoint, has everything; who comes after the cleaner has nothing that is not the group's."""
    attack, path = ATTACKS[row], tmp_path / "checkpoint"
    for topic in shared.topics.values():
        shared.create(topic, **COMPACT_NOW | {"delete.retention.ms": "86400000"})
    with ConnectStorage(worker(shared, **ONE_PARTITION), checkpoint=path) as storage:
        put(storage)
        put(storage, "d")
        config, status, offsets = believed(storage)
        good = attacked(shared)
        for at in good:
            shared.write(at.topic_type.value, attack.records(at))
        count = len(attack.records(good[0]))
        await_that(lambda: believed(storage) and refused(storage), lambda found: found == [count] * 3, what="refused")
        after = believed(storage)
        # A reader that remembers less would believe a replay, and move: all have to.
        moved = config.offset + 1 if attack.late is Late.OLD else config.offset
        assert after[0].offset == moved
        assert same(after, (config, status, offsets))
        assert SECRET.decode() not in caplog.text
        lines = [each for each in caplog.records if each.getMessage().startswith("Refused the record at ")]
        assert len(lines) == 3 * min(count, 100)
        if attack.late is Late.NO_START:
            late(shared, attack)
            put(storage)  # nobody can start any more, and who runs can write over it
    if attack.late in {Late.MISSING, Late.OLD}:
        await_that(lambda: cleaned(shared, good), what="the cleaner's work", timeout_s=120)
    if attack.late is not Late.NO_START:
        late(shared, attack)
    with ConnectStorage(worker(shared, **ONE_PARTITION), checkpoint=path) as storage:
        assert storage.startup.from_checkpoint
        assert same(believed(storage), (config, status, offsets))
        # The owner writes it again, and that is that.
        put(storage)
    assert same(fresh(shared, **ONE_PARTITION), (config, status, offsets))


def same(found: Any, before: Any) -> bool:
    """Compare all but the position of the config topic."""
    configs = [{name: each[0].connector_config(name) for name in each[0].connectors()} for each in (found, before)]
    return configs[0] == configs[1] and found[1:] == before[1:]


def late(shared: Any, attack: Attack) -> None:
    """A reader that begins after the attack, without any memory."""
    if attack.late is Late.NO_START:
        with pytest.raises(ConfigError, match=r"is sealed with key 9, but .* has only 7"):
            fresh(shared, **ONE_PARTITION)
        return
    config, status, offsets = fresh(shared, **ONE_PARTITION)
    found = (config.connector_config("c"), status.connector_status("c"), offsets.offset("c", FILE))
    match attack.late:
        case Late.MISSING:
            assert found == (None, None, None)
        case Late.OLD:
            assert found[0] == {"connector.class": "FileStreamSource", "name": "old"}
            assert found[1].state is State.UNASSIGNED
            assert found[2] == {"position": 0}
        case _:
            assert found[0] is not None
    assert config.connectors() == {"d"} if found[0] is None else {"c", "d"}
    assert status.connector_status("evil") is None
    assert offsets.connectors() <= {"c", "d"}
