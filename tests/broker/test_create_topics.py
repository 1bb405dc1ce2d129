"""``create topics`` and ``check topics`` on one broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connect_share.kafka.descriptions import NewTopicRequest
from tests.support.waiting import await_that


def worker_file(folder: Path, broker: Any, unique: str, *more: str, replicas: int = 1) -> Path:
    path = folder / "worker.properties"
    lines = [f"bootstrap.servers={broker.bootstrap_servers}", f"group.id={unique}", "offset.storage.partitions=3"]
    for kind in ("config", "offset", "status"):
        lines += [f"{kind}.storage.topic={unique}-{kind}", f"{kind}.storage.replication.factor={replicas}"]
    path.write_text("\n".join([*lines, *more]))
    return path


def test_the_set_is_shown_made_and_found_right(broker: Any, unique: str, tmp_path: Path, call: Any) -> None:
    path = worker_file(tmp_path, broker, unique, "status.storage.segment.ms=7200000")
    ran = call("create", "topics", "-w", path, "--dry-run")
    assert ran.code == 0
    assert f"{unique}-offset (offset): new, 3 partitions, 1 replica\n" in ran.out
    words = ("segment.bytes=16777216 ", "every start reads it whole", "segment.ms=7200000 ", "nothing was written")
    assert all(each in ran.out for each in words)
    with broker.admin() as admin:
        names = {kind: f"{unique}-{kind}" for kind in ("config", "offset", "status")}
        assert admin.describe_topics(names.values()) == {}
        ran = call("check", "topics", "-w", path, "--output", "json")
        kinds = {(found["topic"], found["kind"]) for found in ran.json["findings"]}
        assert ran.code == 1
        assert {(name, "missing") for name in names.values()} <= kinds

        ran = call("create", "topics", "-w", path)  # stdin is no terminal
        assert (ran.code, "give --yes" in ran.err) == (1, True)
        ran = call("create", "topics", "-w", path, "--yes", "--output", "json")
        made = ran.json
        assert ran.code == 0
        assert sorted(made["created"]) == sorted(names.values())
        described = admin.describe_topics(names.values())
        assert [len(described[names[kind]].partitions) for kind in ("config", "offset", "status")] == [1, 3, 5]
        for topic in made["topics"]:
            actual = admin.topic_configs(topic["topic"])
            assert {setting["name"]: setting["value"] for setting in topic["settings"]}.items() <= actual.items()
            assert actual["cleanup.policy"] == "compact"
        assert admin.topic_configs(names["status"])["segment.ms"] == "7200000"

    ran = call("create", "topics", "-w", path, "--yes")
    assert ran.code == 0
    assert f"{unique}-config (config): exists, as wanted" in ran.out
    assert "nothing to do" in ran.out
    ran = call("check", "topics", "-w", path, "--output", "json")
    assert not [found for found in ran.json["findings"] if found["topic"] in names.values()]


def test_existing_topics_are_compared_and_an_illegal_set_creates_nothing(
    broker: Any, unique: str, tmp_path: Path, call: Any
) -> None:
    def refused(*more: str, words: str, code: int = 2, flags: tuple[str, ...] = ("--yes",)) -> str:
        ran = call("create", "topics", "-w", worker_file(tmp_path, broker, unique, *more), *flags)
        assert words in ran.out + ran.err
        assert ran.code == code
        assert f"{unique}-config" not in admin.topic_names()
        return str(ran.out)

    with broker.admin() as admin:
        refused("status.storage.min.insync.replicas=2", words="status.storage.min.insync.replicas is 2")
        refused("status.storage.segment.ms=soon", words="status.storage.topic cannot be created")
        many = ("--replication-factor", "9", "--dry-run")
        assert "9 replicas" in refused(words="9 replicas need 9 brokers", code=1, flags=many)
        refused("status.storage.segment.ms=soon", words="status.storage.topic cannot be created", flags=many)

        offset = f"{unique}-offset"
        admin.create_topic(NewTopicRequest(offset, 4, 1, {"cleanup.policy": "delete"}))
        await_that(
            lambda: admin.describe_topics([offset]) and admin.topic_configs(offset)["cleanup.policy"],
            lambda policy: policy == "delete",
            what="the new topic known",
        )
        shown = refused(words="nothing was created: what matters has to be put right first", code=1)
        assert "    matters: cleanup.policy is delete, wanted compact\n" in shown
        assert "    differs: partitions is 4, wanted 3\n" in shown
        path = worker_file(tmp_path, broker, unique)
        ran = call("check", "topics", "-w", path)
        assert ran.code == 1
        assert f"error: {unique}-offset: has cleanup.policy=delete, which loses records sooner or later\n" in ran.out
        command = f"kafka-configs.sh --bootstrap-server {broker.bootstrap_servers} --alter --entity-type topics"
        assert f"    {command} --entity-name {unique}-offset --add-config cleanup.policy=compact\n" in ran.out
        assert f"not as create topics would make it (no finding):\n    {unique}-offset: segment.bytes is " in ran.out
        ran = call("check", "topics", "-w", path, "--replication-factor", "9", "--output", "json")
        ours = [found for found in ran.json["findings"] if found["topic"].startswith(unique)]
        assert {found["kind"] for found in ours} == {"cannot-be-created", "cleanup-policy", "too-few-replicas"}
        assert [found["partition"] for found in ours if found["kind"] == "too-few-replicas"] == [0, 1, 2, 3]
