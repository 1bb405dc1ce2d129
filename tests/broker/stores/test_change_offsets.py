"""The console's changes of source offsets: what is shown, refused, written, backed up and undone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.config_state import TargetState
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.key_ring import new_key
from connect_share.storage import ConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import write_properties
from tests.support.connect_member import ConnectMember
from tests.support.console import Ran
from tests.support.long_forms import LONG
from tests.support.waiting import await_that

CANARY = 918273645546
FILE = {"filename": "a.txt"}
OTHER = {"filename": "b.txt"}


class Side:
    """A group with its worker file, and the console on it."""

    def __init__(self, shared: Any, call: Any, folder: Path, name: str, **more: str) -> None:
        self.group = f"{shared.unique}-{name}"
        properties = shared.properties(self.group, **more) | {SHARING_PROPERTY: "enabled"}
        self.config = WorkerConfig.from_properties(properties)
        self.shared, self._call, self._folder = shared, call, folder
        self.file = write_properties(folder / f"{name}.properties", properties)
        self.backups = folder / f"{name}-backups"
        self.backups.mkdir()

    def put(self, connectors: dict[str, dict[str, str]], target: TargetState = TargetState.STOPPED) -> None:
        with ConnectStorage(self.config, allow_empty=True) as storage:
            storage.config.claim_write_privileges()
            for name, config in connectors.items():
                storage.config.put_connector_config(name, config, target)

    def change(self, verb: str, *words: str | Path, yes: bool = True) -> Ran:
        more = ["--yes"] if yes else []
        ran: Ran = self._call(verb, "offsets", *words, "-w", self.file, "--backup-dir", self.backups, *more)
        return ran

    def alter(self, connector: str, offsets: list[Any], *words: str, yes: bool = True) -> Ran:
        file = self._folder / "offsets.json"
        file.write_text(json.dumps({"offsets": [{"partition": each, "offset": to} for each, to in offsets]}))
        return self.change("alter", connector, "--file", file, *words, yes=yes)

    def offsets(self, connector: str) -> list[dict[str, Any]]:
        """What ``get offsets`` says."""
        ran = self._call("get", "offsets", "-w", self.file, "--connector", connector, "--output", "json")
        return [{"partition": row["partition"], "offset": row["offset"]} for row in ran.json["offsets"]]

    def owners(self) -> list[str]:
        """The connector of each offset there is."""
        ran = self._call("get", "offsets", "-w", self.file, "--output", "json")
        return sorted(row["connector"] for row in ran.json["offsets"])

    def backed_up(self) -> list[Path]:
        return sorted(self.backups.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def at(partition: Any, offset: Any) -> dict[str, Any]:
    return {"partition": partition, "offset": offset}


def test_offsets_are_altered_shown_and_undone(shared: Any, call: Any, tmp_path: Path) -> None:
    side = Side(shared, call, tmp_path, "a")
    side.put({"foo": {}})
    ran = side.alter("foo", [(FILE, {"position": CANARY})], yes=False)
    assert ran.code == 1
    preview = '  {"filename":"a.txt"}: none -> {"position":918273645546}'
    assert (ran.out, preview in ran.err.splitlines()) == ("", True)
    assert "give --yes" in ran.err
    assert side.offsets("foo") == []
    assert side.backed_up() == []

    ran = side.alter("foo", [(FILE, {"position": CANARY}), (OTHER, {"position": 1})], "-v")
    assert (ran.code, [line for line in ran.err.splitlines() if str(CANARY) in line]) == (0, [preview])  # not logged
    assert side.offsets("foo") == [at(FILE, {"position": CANARY}), at(OTHER, {"position": 1})]
    first = side.backed_up()[0]
    assert first.stat().st_mode & 0o777 == 0o600
    assert json.loads(first.read_text()) == {"offsets": [at(FILE, None), at(OTHER, None)]}

    again = side.alter("foo", [(OTHER, {"position": 1})])
    assert (again.code, again.out.splitlines()[-1]) == (0, "nothing to do")
    ran = side.alter("foo", [(FILE, None), (OTHER, {"position": 2.0})], "--output", "json", "--dry-run")
    row = {"group": side.group, "connector": "foo"}
    assert ran.json["changes"] == [
        {**row, "partition": FILE, "old": {"position": CANARY}, "new": None},
        {**row, "partition": OTHER, "old": {"position": 1}, "new": {"position": 2.0}},
    ]
    assert (ran.json["dry_run"], ran.json["written"], len(side.backed_up())) == (True, 0, 1)

    ran = side.change("reset", "foo", "--partition", '{"filename": "b.txt"}', "--output", "json")
    assert (ran.json["written"], ran.json["unchanged"]) == (1, 0)
    assert ran.json["backups"][0]["file"] == str(side.backed_up()[1])
    assert side.offsets("foo") == [at(FILE, {"position": CANARY})]
    assert side.change("reset", "foo").code == 0
    assert side.offsets("foo") == []
    # As the command said, a backup undoes what was done after it; also in a ConfigMap, as Strimzi has offsets.
    in_map = tmp_path / "offsets.yaml"
    in_map.write_text(f"kind: ConfigMap\ndata:\n  offsets.json: {json.dumps(first.read_text())}\n")
    for backup, left in ((side.backed_up()[2], [at(FILE, {"position": CANARY})]), (in_map, [])):
        assert side.change("alter", "foo", "--file", backup).code == 0
        assert side.offsets("foo") == left

    # What no connector can use is forgotten as well, and the backup is still one that can be read.
    odd = [(b'["foo",{"a":[1]}]', b"{}"), (b'["foo",{"a":1}]', b'{"n":1e999}'), (b'["foo",{"b":1}]', b'{"n":2}')]
    shared.write("offset", odd, group=side.group)
    ran = side.change("reset", "foo")
    assert (ran.code, "2 old values of foo cannot be put back" in ran.err) == (0, True)
    assert side.change("alter", "foo", "--file", side.backed_up()[-1]).code == 0
    assert side.offsets("foo") == [at({"b": 1}, {"n": 2})]


def test_what_may_not_be_changed_is_refused(shared: Any, call: Any, tmp_path: Path) -> None:
    side = Side(shared, call, tmp_path, "a")
    missing = side.alter("foo", [(FILE, {"position": 1})])
    assert missing.code == 1
    assert f"topic {shared.topics['config']} does not exist" in missing.err
    assert shared.admin.describe_topics(shared.topics.values()) == {}
    for topic in shared.topics.values():
        shared.create(topic, cleanup_policy="compact")
    shared.write("config", [(b"connector-plain", b'{"properties":{}}')])
    ran = side.alter("foo", [(FILE, {"position": 1})], "--force")
    assert (ran.code, "hold only plain records" in ran.err, "allow_empty" in ran.err) == (1, True, False)
    side.put({"runs": {}}, TargetState.STARTED)
    side.put({"foo": {}})
    for name, why in (
        ("nope", "no connector 'nope'"),
        ("runs", r"'runs' is not stopped (target state STARTED, 0 tasks)"),
    ):
        ran = side.alter(name, [(FILE, {"position": 1})])
        assert (ran.code, why in ran.err, ran.out) == (1, True, "")
        ran = side.alter(name, [(FILE, {"position": 1})], "--dry-run")
        assert (ran.code, why in ran.err, " none -> " in ran.out) == (1, True, True)
    with ConnectMember(shared.bootstrap_servers, side.group):
        ran = side.alter("foo", [(FILE, {"position": 1})], "--force")
        assert (ran.code, "1 live Connect worker of group" in ran.err) == (1, True)
    assert shared.read("offset") == []
    assert side.backed_up() == []
    assert side.alter("nope", [(FILE, {"position": 1})], "--force").code == 0
    assert side.offsets("nope") == [at(FILE, {"position": 1})]


def test_offsets_are_copied_between_groups_by_pattern(shared: Any, call: Any, tmp_path: Path) -> None:
    sealed = {KEYS_PROPERTY.replace(".", "_"): new_key()}
    here, there = Side(shared, call, tmp_path, "a"), Side(shared, call, tmp_path, "b", **sealed)
    own = f"{shared.unique}-own"
    shared.create(own, partitions=2, cleanup_policy="compact")
    far = {"connector.class": "FileStreamSink", "topics": "t", "consumer.override.bootstrap.servers": "127.0.0.1:1"}
    here.put({"x-1": {}, "x-2": {}, "x-far": far, "y": {}})
    there.put({"x-1": {}, "x-2": {"offsets.storage.topic": own}, "y": {}})
    for name in ("x-1", "x-2", "y"):
        assert here.alter(name, [(FILE, {"position": CANARY}), (None, {"n": None})]).code == 0
    there.alter("x-1", [(FILE, {"position": 1}), (OTHER, {"position": 2})])

    to = ("--to-worker-config", there.file)
    ran = here.change("copy", "--matching", "x-*", *to, "--output", "json", "--timeout", "10")
    assert (ran.code, ran.json["written"], "x-far not copied: " in ran.err) == (0, 4, True)
    ran_alone = here.change("copy", "--matching", "x-f*", *to, "--timeout", "10")
    assert (ran_alone.code, ran_alone.out.strip()) == (0, "nothing to do")
    assert [row["connector"] for row in ran.json["changes"]] == ["x-1", "x-1", "x-2", "x-2"]
    assert {row["group"] for row in ran.json["changes"]} == {there.group}
    # Sealed in the other group, and the canary in no value of it.
    assert there.offsets("x-1") == [at(FILE, {"position": CANARY}), at(OTHER, {"position": 2})]
    assert there.offsets("y") == []
    foreign = [value or b"" for key, value in shared.read("offset") if key.startswith(there.group.encode())]
    assert foreign != []
    assert not any(str(CANARY).encode() in value for value in foreign)
    assert (b'["x-2",{"filename":"a.txt"}]', b'{"position":%d}' % CANARY) in shared.read("offset", topic=own)
    with ConnectStorage(there.config) as storage:
        assert storage.offset_reader("x-2").offset(FILE) == {"position": CANARY}
        assert storage.offset_reader("x-2").offset(None) == {"n": None}

    kept = [line for line in there.file.read_text().splitlines() if KEYS_PROPERTY not in line]
    there.file.write_text("\n".join(kept))
    ran = there.alter("x-1", [(FILE, {"position": 3})], "--force")
    assert (ran.code, "look sealed, such as" in ran.err, KEYS_PROPERTY in ran.err) == (1, True, True)
    ran = here.change("copy", "y", "--to", "x-1")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "nothing to do")
    assert here.change("copy", "y", "--to", "y").code == 2
    assert "no source offsets" in here.change("copy", "z", "--to", "x-1").err


@pytest.mark.skipif(not LONG, reason="starts a second broker: a part of make soak")
def test_offsets_are_copied_between_clusters(shared: Any, call: Any, tmp_path: Path, own_broker: LocalBroker) -> None:
    with ExitStack() as stack:
        elsewhere = type(shared)(own_broker.bootstrap_servers, shared.unique, stack)
        here = Side(shared, call, tmp_path, "a")
        there = Side(elsewhere, call, tmp_path, "b", group_id=here.group, exactly_once_source_support="enabled")
        here.put({"foo": {}})
        there.put({"foo": {}})
        assert here.alter("foo", [(FILE, {"position": 7})]).code == 0
        assert here.change("copy", "foo", "--to-worker-config", there.file).code == 0
        assert here.change("reset", "foo").code == 0
        assert there.offsets("foo") == [at(FILE, {"position": 7})]


# It changes two connectors and never begins the third, so that the kill comes in time.
HELD = """
import sys
from connect_share.cli.__main__ import main
from connect_share.cli.offset_changes import ConnectorPlan
write, begun = ConnectorPlan.write, []
def held(plan, **options):
    if len(begun) == 2:
        sys.stdin.read()
    begun.append(plan)
    return write(plan, **options)
ConnectorPlan.write = held
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_killed_change_is_completed_by_the_same_command(shared: Any, call: Any, tmp_path: Path, mode: str) -> None:
    names = [f"c-{number}" for number in range(4)]
    side = Side(shared, call, tmp_path, "a", exactly_once_source_support=mode)
    side.put({name: {} for name in names})
    with ConnectStorage(side.config) as storage:
        for name in names:
            storage.alter_offsets(name, [({"filename": f"{number}"}, {"n": number}) for number in range(5)])

    def written() -> int:
        # Committed ones: a transaction that is open when its writer dies changes nothing.
        partitions = [(shared.topics["offset"], number) for number in range(3)]
        return sum(shared.admin.end_offsets(partitions, Isolation.READ_COMMITTED).values())

    before = written()
    words = ["reset", "offsets", "--matching", "c-*", "-w", str(side.file), "--backup-dir", str(side.backups), "--yes"]
    command = [sys.executable, "-c", HELD, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        await_that(lambda: written() > before, what="being written")
        process.kill()
    assert process.returncode == -signal.SIGKILL
    left = side.owners()
    assert 0 < len(left) < 5 * len(names)  # of the connector it was killed at, some may be left
    assert len(side.backed_up()) == len(names)
    ran = side.change("reset", "--matching", "c-*", "--output", "json")
    assert (ran.code, sorted(row["connector"] for row in ran.json["changes"])) == (0, left)
    assert side.owners() == []
