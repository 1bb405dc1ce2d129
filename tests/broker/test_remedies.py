"""Every command that is printed: the state that prints it, the command as it stands, and the state mended."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from connect_share.checks import admission
from connect_share.checks.admission import StartupEffect
from connect_share.errors import AuthorizationError, PlainTopicsError
from connect_share.kafka.create import ONE_PARTITION
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.write_access import TopicNeed, require_access
from connect_share.model.records import Record, TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.lab.secure_broker import SecureBroker
from tests.support.checked import CONFIG, OFFSET, STATUS, records
from tests.support.console import Call
from tests.support.migration_site import Site, pair, run
from tests.support.printed import Printed, in_bash
from tests.support.rights import allow, login
from tests.support.sealed_sites import worker as sealed_worker
from tests.support.topics import alter_known, create_known, in_transaction, write_records
from tests.support.waiting import await_that

CONNECTOR = '{"properties":{"connector.class":"C"}}'
TASK = '{"properties":{"task.class":"T"}}'
STATUS_VALUE = '{"state":"RUNNING","trace":null,"worker_id":"%s:1","generation":%d}'


def connector(name: str) -> list[tuple[str, str]]:
    """What a worker writes of a connector with one task."""
    return [(f"connector-{name}", CONNECTOR), (f"task-{name}-0", TASK), (f"commit-{name}", '{"tasks":1}')]


def lay(site: Site, who: str, topic_type: TopicType, *pairs: tuple[str, str | None], group: str | None = None) -> None:
    made = [
        Record(site.topic(who, topic_type), 0, each.offset, each.timestamp_ms, each.key, each.value)
        for each in records(topic_type, *pairs, group=group)
    ]
    write_records(site.settings, site.topic(who, topic_type), made, keep_partition=False)


def findings(call: Call, *words: str | Path) -> dict[str, Any]:
    """The last finding of each id."""
    return {each["id"]: each for each in call(*words, "--output", "json").json["findings"]}


def test_what_checks_print(site: Site, call: Call, printed: Printed) -> None:
    site.create("shared")
    group, dead = f"{site.name}-g", f"-{site.name}"
    file = site.worker_file("shared", group, sharing=True)
    late = [*connector("late")[1:], *connector("late")[:1]]
    lay(site, "shared", CONFIG, *late, group=group)
    bad = '{"properties":{"connector.class":"C","tasks.max":1}}'
    lay(site, "shared", CONFIG, ("connector-d", bad), ("task-gone-0", TASK), group=group)
    lay(site, "shared", OFFSET, ('["gone",{"p":1}]', '{"o":1}'), group=group)
    # An id may begin with a dash, and belong to others.
    lay(site, "shared", CONFIG, ("connector-x", CONNECTOR), ("connector-x", None), group=dead)
    lay(site, "shared", STATUS, ("status-connector-x", STATUS_VALUE % ("w", 1)), group=dead)
    for kind in ("values-config", "order-tasks-dropped", "orphan-offsets"):
        command = findings(call, "check", "all", "-w", file)[kind]["command"]
        ran = printed(command, "--yes")
        assert ran.code == 0, ran.err
        assert kind not in findings(call, "check", "all", "-w", file)
    command = findings(call, "check", "all", "-w", file)["orphan-group"]["command"]
    assert printed(command, FILE=file).code == 0
    words = [str(file) if word == "FILE" else word for word in in_bash(command.replace("--dry-run", "--yes"))]
    assert call(*words[1:]).code == 0
    ran = call("check", "all", "-w", file, "--output", "json")
    assert "orphan-group" not in {each["id"] for each in ran.json["findings"]}
    scans = ran.json["checks"]["topic-ids"]["reason"]
    assert printed(scans.partition(": ")[2]).code == 0


def test_what_checks_of_topics_print(site: Site, call: Call, printed: Printed) -> None:
    file = site.worker_file("shared", site.name, sharing=True)
    command = findings(call, "check", "topics", "-w", file)["topics-missing"]["command"]
    assert printed(command, "--yes").code == 0
    assert "topics-missing" not in findings(call, "check", "topics", "-w", file)
    wrong = {"cleanup.policy": "compact,delete", "min.insync.replicas": "1"}
    with site.admin() as admin:
        alter_known(admin, site.topic("shared", STATUS), wrong)
    ran = printed(findings(call, "check", "topics", "-w", file)["topics-cleanup-policy"]["command"])
    assert ran.code == 0, ran.out + ran.err
    await_that(  # the controller answers first
        lambda: findings(call, "check", "topics", "-w", file),
        lambda seen: "topics-cleanup-policy" not in seen,
        what="set",
    )


def test_a_config_topic_of_several_partitions(site: Site, call: Call) -> None:
    """The steps of the remedy, which are for a person; the commit lies before its task, and that before its connector."""
    site.create("own", {CONFIG: 3, STATUS: 1, OFFSET: 1})
    site.lay_down("own", OFFSET, [pair('["c",{"n":1}]', '{"position":1}', 0)])
    laid = enumerate(reversed(connector("c")))
    site.lay_down("own", CONFIG, [pair(key, value, place) for place, (key, value) in laid])
    file, backup = site.worker_file("own", site.name, sharing=False), site.folder / "b.avro"
    assert findings(call, "check", "topics", "-w", file)["topics-partition-count"]["remedy"] == ONE_PARTITION
    assert call("export", "-w", file, "-o", backup).code == 0
    file.write_text(file.read_text().replace(site.topic("own", CONFIG), site.topic("new", CONFIG)))
    for words in ("create topics --although-lost", f"restore {backup} --only config"):
        assert call(*words.split(), "-w", file, "--yes").code == 0
    command = findings(call, "check", "order", "-w", file)["order-tasks-dropped"]["command"]
    assert call(*in_bash(command)[1:], "--yes").code == 0
    assert findings(call, "check", "order", "-w", file) == {}
    assert "topics-partition-count" not in findings(call, "check", "topics", "-w", file)


def test_what_admit_prints(site: Site, call: Call, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    site.create("shared")
    plain, new = site.worker_file("shared", f"{site.name}-p", sharing=False), f"{site.name}-n"
    file = site.worker_file("shared", new, sharing=True)
    lay(site, "shared", CONFIG, *connector("c"))
    assert printed(findings(call, "admit", "-w", plain)["admit-not-shared"]["command"]).code == 1
    monkeypatch.setattr(admission, "startup_effect", lambda *_: StartupEffect(1.0, 2.0, 0.5))
    there = findings(call, "admit", "-w", file, "--limit", "1")
    assert printed(there["admit-startup"]["command"]).code in (0, 1)
    move = printed(
        there["admit-plain-cluster"]["command"],
        FILE_OF_IT=plain,
        SHARED_FILE=site.worker_file("other", site.name, sharing=True),
        PLAN=site.folder / "p.json",
    )
    assert move.code == 0, move.err
    lay(site, "shared", CONFIG, ("connector-c", CONNECTOR), group=new)
    command = findings(call, "admit", "-w", file)["admit-id-in-use"]["command"]
    assert printed(command).code == 0


def test_what_a_move_prints(
    site: Site, printed: Printed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(site.folder)
    source, shared, plan = site.small_source(), site.shared(), site.folder / "a plan.json"

    def told(pattern: str, text: str) -> str:
        found = re.search(
            rf"(connect-share-migrate {pattern}.*?)(?:$|[;,)]| or | shows | continues)", text, re.MULTILINE
        )
        assert found is not None, text
        return found[1]

    code, out, err = run("plan", "-w", source, "--to-worker-config", shared, "-o", plan)
    assert code == 0, err
    assert printed(told("apply", run("verify", plan)[2]), "--yes").code == 0  # no topic is there yet
    assert printed(told("apply", out), "--yes").code == 1  # it was applied
    assert printed(told("verify", run("resume", plan)[2])).code == 0
    assert printed(told("cutover", run("resume", plan)[2]), "--yes").code == 0
    again = ("plan", "-w", source, "--to-worker-config", shared, "-o", site.folder / "again.json")
    ran = printed(told("unseal", run(*again)[2]), "--yes")
    assert ran.code == 0, ran.err
    ran = printed(told("rollback", run(*again)[2]), "--yes", PLAN=plan)
    assert ran.code == 0, ran.err
    assert run(*again)[0] == 0
    # Stores that find plain records alone.
    sharing = site.worker_file("own", "orders", sharing=True)
    with pytest.raises(PlainTopicsError) as caught:
        ConnectStorage(WorkerConfig.from_file(sharing)).start()
    places = {"OLD": source, "NEW": shared, "PLAN": site.folder / "third.json"}
    ran = printed(told("plan", str(caught.value)), **places)
    assert ran.code == 0, ran.err


def test_what_is_printed_of_two_clusters(site: Site, call: Call, printed: Printed) -> None:
    site.create("own")
    files = [site.worker_file("own", group, sharing=False) for group in ("one", "two")]
    targets = [site.worker_file("shared", group, sharing=True) for group in ("one", "two")]
    lay(site, "own", CONFIG, *connector("a"), *connector("b"))
    turns = [("status-connector-a", STATUS_VALUE % (f"w{turn % 2}", 1 + 9 * (turn % 2))) for turn in range(8)]
    lay(site, "own", STATUS, *turns)
    (site.folder / "owners.json").write_text(json.dumps({"one": ["a"], "two": ["b"]}))
    command = findings(call, "check", "collisions", "-w", files[0])["collision-two-plain-clusters"]["command"]
    said = {
        name: call("check", name, "-w", files[0]).err for name in ("all", "collisions", "orphans", "values", "sealing")
    }
    assert [name for name, err in said.items() if "two Connect clusters" in err] == ["orphans", "values", "sealing"]
    ran = printed(
        command,
        FILE_OF_ONE=files[0],
        FILE_OF_OTHER=files[1],
        NEW_OF_ONE=targets[0],
        NEW_OF_OTHER=targets[1],
        OWNERS=site.folder / "owners.json",
        PLAN=site.folder / "split.json",
    )
    assert ran.code == 0, ran.err
    assert run("apply", site.folder / "split.json", "--yes")[0] == 0
    assert "collision-two-plain-clusters" not in findings(call, "check", "collisions", "-w", targets[0])


def test_what_is_printed_of_an_open_transaction(site: Site, call: Call, printed: Printed) -> None:
    site.create("shared")
    more = {"exactly_once_source_support": "enabled"}
    file = site.worker_file("shared", site.name, sharing=True, **more)
    held = [Record(site.topic("shared", CONFIG), 0, 0, 1, f"{site.name}.connector-c".encode(), CONNECTOR.encode())]
    writer = in_transaction(site.settings, site.name, held)
    (named,) = set(re.findall(r"connect-share get groups .*(?= shows)", call("get", "connectors", "-w", file).err))
    assert site.name in printed(named).out
    writer.abort_transaction(120)


def test_what_discover_prints(quiet_site: Site, call: Call, printed: Printed) -> None:
    for who in ("one", "two"):
        quiet_site.create(who)
        lay(quiet_site, who, CONFIG, *connector(who), group=quiet_site.name)
        lay(quiet_site, who, STATUS, (f"status-connector-{who}", STATUS_VALUE % ("h", 3)), group=quiet_site.name)
    clusters = call("discover", "-B", quiet_site.bootstrap_servers, "--output", "json").json["clusters"]
    found = {each["where"]: each for row in clusters for each in row["problems"] if each["id"] == "discover-two-sets"}
    assert found.keys() == {quiet_site.topic(who, CONFIG) for who in ("one", "two")}
    for who, each in found.items():
        assert each["severity"] == "warning"
        assert quiet_site.name in printed(each["command"]).err, who


def test_what_is_printed_of_sealed_groups(site: Site, call: Call, printed: Printed) -> None:
    site.create("shared")
    file = sealed_worker(site, "shared", site.name, 7, mode="accept")
    lay(site, "shared", CONFIG, ("connector-c", CONNECTOR), group=site.name)
    command = findings(call, "check", "sealing", "-w", file)["sealing-plain-values"]["command"]
    ran = printed(command, "--yes")
    assert ran.code == 0, ran.err
    assert "sealing-plain-values" not in findings(call, "check", "sealing", "-w", file)
    there = findings(call, "admit", "-w", site.worker_file("shared", f"{site.name}-n", sharing=True))
    assert printed(there["admit-sealing"]["command"]).out.count(":") == 1
    text = call("check", "worker-config", file, "--offline").out
    for made in re.findall(r"when (connect-share check sealing .*?) finds|; (connect-share worker-jar .*?) puts", text):
        assert printed(made[0] or made[1], DIR=site.folder).code == 0
    lay(site, "shared", CONFIG, ("connector-d", CONNECTOR), group=site.name)
    garbage = Record(site.topic("shared", STATUS), 0, 0, 1, f"{site.name}.status-connector-c".encode(), bytes([1] * 61))
    site.produce([garbage])
    assert printed(findings(call, "check", "sealing", "-w", file)["sealing-unknown-keys"]["command"], "--yes").code == 0
    replaced = findings(call, "check", "sealing", "-w", file)["sealing-unknown-keys"]
    assert replaced["severity"] == "warning"
    other = site.worker_file("shared", f"{site.name}-o", sharing=True)
    command = findings(call, "check", "all", "-w", other)["sealing-plain-beside-sealed"]["command"]
    assert printed(command, FILE=file).code == 0


@pytest.mark.xdist_group("secure-broker")
def test_what_checks_of_rights_print(
    secure: SecureBroker, unique: str, tmp_path: Path, call: Call, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(secure.admin()) as admin:
        site = Site(admin.bootstrap_servers, unique, tmp_path)
        file = site.worker_file("shared", unique, sharing=True, exactly_once_source_support="enabled")
        for kind in TopicType:
            create_known(admin, NewTopicRequest(site.topic("shared", kind), 1, 1, {"cleanup.policy": "compact"}))
    as_user = "\n".join(f"{name}={value}" for name, value in login(secure, "user", "PLAIN").items())
    file.write_text(f"{file.read_text()}\n{as_user}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client.properties").write_text(as_user)
    allow(secure, "user", [(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, AclOperation.ALTER)])
    said = call("repair", "values", "-w", file, "--yes").err
    (named,) = re.findall(r"\((connect-share check rights .*?) says", said)
    assert "not allowed" in printed(named, FILE=file).out
    # The first one's login has all rights on topics of the same names.
    workers = map(WorkerConfig.from_file, (site.worker_file("shared", f"{unique}-o", sharing=True), file))
    with pytest.raises(AuthorizationError, match=re.escape(f"(connect-share check rights -w {file} says how)")):
        require_access(TopicNeed(each, site.topic("shared", CONFIG), ("WRITE",)) for each in workers)
    asked = ("check", "rights", "-w", file, "--for", "worker")
    name = {"User:NAME": "User:user"}
    for finding in call(*asked, "--output", "json").json["findings"]:
        if finding["id"] != "rights-unknown":
            ran = printed(finding["command"], **name)
            assert ran.code == 0, ran.out + ran.err
    await_that(lambda: findings(call, *asked).keys(), lambda found: found <= {"rights-unknown"}, what="rights")
    ran = printed(findings(call, *asked)["rights-unknown"]["command"], **name)
    assert "ALTER" in ran.out
