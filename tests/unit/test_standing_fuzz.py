"""What strangers may write, against everything that folds, counts, rewrites, compares or shows records, without a broker.

Nothing may raise; every record changes something or is counted; no message holds a secret. In a soak
(``CONNECT_SHARE_SOAK_MINUTES``) a hundred thousand records and five thousand configurations, and the time and memory of each.
"""

from __future__ import annotations

import gc
import io
import logging
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from connect_share.checks.sealing import find
from connect_share.cli import get as rows
from connect_share.console.output import Output, Result, Table
from connect_share.contents.groups import FOLDS, Contents
from connect_share.errors import ConfigError, ConnectShareError, ValueFormatError
from connect_share.model import writable
from connect_share.model.connect_json import dumps, loads
from connect_share.model.keys import ClusterGroupId, connector_of, own_key, split_key
from connect_share.model.records import Record, TopicType
from connect_share.storage.checkpoint import Checkpoint, TopicCheckpoint, read_checkpoint, write_checkpoint
from connect_share.stores.connector_offsets import own_offsets_worker_config
from connect_share.transform.canonical import fold_state
from connect_share.transform.counter import RecordCounter
from connect_share.transform.rules import KeyTransform, Skipped
from connect_share.worker_config.secret_values import clear_text_secrets
from migrator.survey import SecretPlace, TopicCount
from migrator.verify.equality import KeySpaces, compare_states, digest_of
from tests.support.checked import folded
from tests.support.hostile_records import SECRET, SEED, HostileRecords
from tests.support.long_forms import LONG
from tests.support.sides import message_of
from tests.unit.stores.test_stores_scripted import PLAIN

GROUP: Final = ClusterGroupId("group-a")
RECORDS: Final = 34_000 if LONG else 1_200  # of each topic
CONFIGURATIONS: Final = 5_000 if LONG else 300
LONGEST_S: Final = 0.05
TIMES_ITS_SIZE: Final = 20
# What Python itself takes for an empty list or a member of a map: the smallest text of one is two bytes.
BYTES_A_CONTAINER: Final = 100
BYTES_IN_ANY_CASE: Final = 65_536


@pytest.fixture(autouse=True)
def seed(record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    record_property("CONNECT_SHARE_SOAK_SEED", SEED)
    print(f"CONNECT_SHARE_SOAK_SEED={SEED}")
    yield
    if LONG:
        with capsys.disabled():
            print(f"CONNECT_SHARE_SOAK_SEED={SEED}")


def hostile(topic_type: TopicType) -> list[Record]:
    return list(HostileRecords(SEED, group=GROUP).records(topic_type, RECORDS))


def transform_of(topic_type: TopicType, group: ClusterGroupId | None) -> KeyTransform:
    groups = None if group is None else frozenset({str(group)})
    destination = None if group is not None else GROUP
    return KeyTransform(topic_type, plain=group is None, groups=groups, destination=destination)


def readers(topic_type: TopicType) -> dict[str, Callable[[Record], object]]:
    """Everything that looks at one record after the other."""
    plain, own = FOLDS[topic_type](None), FOLDS[topic_type](GROUP)
    counting = RecordCounter(transform_of(topic_type, GROUP))
    survey = TopicCount(topic_type)
    spaces = KeySpaces(topic_type, {None: digest_of(topic_type), str(GROUP): digest_of(topic_type)})

    def parse(record: Record) -> None:
        for data in (record.key, record.value):
            with suppress(ValueFormatError):
                loads(data)

    return {
        "plain fold": plain.apply,
        "fold": own.apply,
        "keys": lambda record: (
            split_key(topic_type, record.key or b""),
            own_key(topic_type, record.key or b"", GROUP),
        ),
        "connector": lambda record: connector_of(topic_type, record.key or b""),
        "json": parse,
        "plan": counting.count,
        "survey": lambda record: survey.read([record]),
        "verify": lambda record: spaces.add([message_of(record)]),
    }


@pytest.mark.parametrize("group", [GROUP, None], ids=["shared", "plain"])
@pytest.mark.parametrize("topic_type", TopicType)
def test_a_record_changes_something_or_is_counted(
    topic_type: TopicType, group: ClusterGroupId | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    records, fold = hostile(topic_type), FOLDS[topic_type](group)
    for record in records:
        before, kinds = fold.own_records, fold.skipped.total()
        fold.apply(record)
        assert fold.own_records + fold.skipped.total() > before + kinds, f"{record!r} is not accounted for"
        assert fold.own_records <= before + 1
        assert fold.skipped.total() <= kinds + 1
    assert fold.own_records > 0
    assert len(fold.skipped) > 1
    mine = FOLDS[topic_type](group)
    for record in records:
        parts = split_key(topic_type, record.key or b"")
        if parts is not None and parts[0] == group:
            mine.apply(record)
    if group is not None:  # what is not the group's changes nothing
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(5_000)  # for the comparison: a value may be nested a thousand deep
        try:
            assert mine.saved() == fold.saved()
        finally:
            sys.setrecursionlimit(limit)
    told = [line.getMessage() for line in caplog.records if line.name.startswith("connect_share")]
    assert told
    assert max(map(len, told)) < 600
    assert not [line for line in told if SECRET in line or SECRET[:8] in line]


@pytest.mark.parametrize("topic_type", TopicType)
def test_every_reader_of_one_record_goes_on(topic_type: TopicType) -> None:
    looking = readers(topic_type)
    for record in hostile(topic_type):
        for look in looking.values():
            look(record)
        with suppress(ValueFormatError):
            value = loads(record.value)
            text = dumps(value)
            assert dumps(loads(text)) == text


@pytest.mark.parametrize("topic_type", TopicType)
def test_what_is_moved_is_what_was_there(topic_type: TopicType) -> None:
    """Onto plain keys in both modes; the comparison of what workers believe agrees."""
    records, transform = hostile(topic_type), transform_of(topic_type, GROUP)
    count = TopicCount(topic_type)
    count.read(records)
    assert count.folds.unrecognized + sum(group.records for group in count.groups.values()) == len(records)
    for group in count.groups.values():
        assert group.unparseable <= group.records
        assert group.largest_bytes <= group.bytes
    moved = [answer for record in records if not isinstance(answer := transform.apply(record), Skipped)]
    assert compare_states(topic_type, moved, moved, cluster_group_id=None) == []
    left_out = {b"session-key"}
    ours = [each for each in records if (own_key(topic_type, each.key or b"", GROUP) or b"") not in left_out]
    found = compare_states(topic_type, ours, moved, cluster_group_id=None, source_cluster_group_id=GROUP)
    assert found == []
    folded = list(fold_state(transform, records))
    for difference in compare_states(topic_type, moved, folded, cluster_group_id=None):
        assert SECRET not in str(difference) + difference.model_dump_json()
    if topic_type is not TopicType.CONFIG:  # whose state mode gives tasks back that Connect has lost
        in_order = list(HostileRecords(SEED, group=GROUP).records(topic_type, RECORDS, partitions=1))
        state = fold_state(transform, in_order)
        assert compare_states(topic_type, in_order, state, cluster_group_id=None, source_cluster_group_id=GROUP) == []


def test_a_checkpoint_keeps_it_all(tmp_path: Any) -> None:
    folds = {topic_type: FOLDS[topic_type](GROUP) for topic_type in TopicType}
    parts = {}
    for topic_type, fold in folds.items():
        for record in hostile(topic_type):
            fold.apply(record)
        parts[topic_type.value] = TopicCheckpoint(
            topic="t", topic_id="i", isolation="x", log_starts={}, positions={}, leader_epochs={}, state=fold.saved()
        )
    try:
        write_checkpoint(tmp_path / "c", Checkpoint(cluster_group_id=GROUP, taken_at_ms=1, **parts))
    except OSError as error:
        if "nested too deeply" in str(error):  # then there is none, and the next start reads all
            return
        raise
    again = read_checkpoint(tmp_path / "c")
    for topic_type, fold in folds.items():
        restored = FOLDS[topic_type](GROUP)
        restored.restore(again.of(topic_type).state)
        assert restored.snapshot() == fold.snapshot()


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_console_shows_it(form: str) -> None:
    found = Contents({topic_type: folded(topic_type, hostile(topic_type)) for topic_type in TopicType})
    stdout, stderr = io.StringIO(), io.StringIO()
    out = Output("get", form, stdout=stdout, stderr=stderr)
    shown: dict[str, list[dict[str, Any]]] = {"connectors": [], "tasks": [], "offsets": []}
    for each in rows.connectors_of(found, None):
        shown["connectors"].append(rows.connector_row(found, *each))
        shown["tasks"] += rows.task_rows(found, *each)
    for group in found.groups():
        for name in sorted(found.offsets_of(group).connectors()):
            shown["offsets"] += rows.offset_rows(found, group, name, None, print)
    assert all(shown.values())
    shown["findings"] = [each.to_dict() for each in find(found, None, None, all_groups_sealed=True)]
    for name, members in shown.items():
        if out.is_json:
            out.json({name: members})
        else:
            shown_rows = [[rows.json_text_of(cell) for cell in row.values()] for row in members]
            out.show(Result({}, [Table(list(members[0]), shown_rows)]))
    for text in (stdout.getvalue(), stderr.getvalue()):
        assert all(line.isprintable() for line in text.split("\n"))


def test_hostile_configurations_of_connectors(caplog: pytest.LogCaptureFixture) -> None:
    configs = list(HostileRecords(SEED).configurations(CONFIGURATIONS))
    for config in configs:
        for name in clear_text_secrets(config):
            assert SECRET not in SecretPlace(connector="c", property=name).model_dump_json()
        with suppress(ConfigError), no_secret():
            own_offsets_worker_config(PLAIN, "c", config)
        with suppress(ValueFormatError), no_secret():
            writable.connector_config_record("c", config)
    assert SECRET not in caplog.text


@contextmanager
def no_secret() -> Iterator[None]:
    try:
        yield
    except ConnectShareError as error:
        told = str(error)
        if SECRET in told:
            raise AssertionError(told) from error
        raise


@pytest.mark.skipif(not LONG, reason="the long form, in make soak: CONNECT_SHARE_SOAK_MINUTES")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("topic_type", TopicType)
def test_time_and_memory_of_each_record(topic_type: TopicType, capsys: pytest.CaptureFixture[str]) -> None:
    """Time is that of the processor, and the best of three, for others use the machine, too."""
    logging.disable(logging.CRITICAL)
    slowest: dict[str, tuple[float, str]] = {}
    widest: dict[str, tuple[float, str]] = {}
    largest: dict[bytes | None, tuple[int, int]] = {}
    looking, again = readers(topic_type), [readers(topic_type), readers(topic_type)]
    gc.disable()  # of garbage of other records it is not known when it is paid for
    try:
        for record in hostile(topic_type):
            text = (record.key or b"") + (record.value or b"")
            # Of a key in several partitions what was kept before is looked at, too.
            before = largest.get(record.key, (0, 0))
            size, containers = max(before[0], len(text)), max(before[1], sum(map(text.count, (b"[", b"{", b":"))))
            largest[record.key] = size, containers
            for name, look in looking.items():
                taken = []
                for one in (look, *(each[name] for each in again)):
                    began = time.thread_time()
                    one(record)
                    taken.append(time.thread_time() - began)
                    if taken[0] < LONGEST_S / 5:
                        break
                slowest[name] = max(slowest.get(name, (0.0, "")), (min(taken), f"{record!r}"))
                tracemalloc.start()
                look(record)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                beyond = max(0, peak - BYTES_IN_ANY_CASE - containers * BYTES_A_CONTAINER) / max(size, 1)
                widest[name] = max(widest.get(name, (0.0, "")), (beyond, f"{record!r}"))
            if record.offset % 1_000 == 0:
                gc.collect()
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
    with capsys.disabled():
        for name in looking:
            print(f"{topic_type.value} {name}: {slowest[name][0] * 1000:.1f} ms, {widest[name][0]:.1f} times its size")
    assert max(slowest.values())[0] < LONGEST_S, slowest
    assert max(widest.values())[0] < TIMES_ITS_SIZE, widest
