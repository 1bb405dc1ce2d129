"""Facts before a plan, on a real broker: one rich scene, one where nothing answers."""

from __future__ import annotations

import json
from pathlib import Path

from connect_share.model.records import TopicType
from migrator.survey import Survey, survey
from tests.support.connect_member import ConnectMember
from tests.support.migration_site import SHARED_PARTITIONS, SMALL, Site, pair, run
from tests.support.topics import in_transaction, pairs_of

SECRET = "hunter2-hunter2"
CONFIG = TopicType.CONFIG


def properties(**config: str) -> str:
    return json.dumps({"properties": {name.replace("_", "."): value for name, value in config.items()}})


def a_scene(site: Site) -> tuple[Path, Path, str]:
    """Plain topics that two files name; a shared config topic with four groups; no shared status and offset topic."""
    live = f"{site.name}-live"
    site.create("own")
    for topic_type, pairs in SMALL.items():
        site.lay_down("own", topic_type, pairs)
    site.lay_down(
        "own",
        CONFIG,
        [
            pair("commit-early", '{"tasks":1}'),
            pair("task-early-0", properties(db_password=SECRET)),
            pair(
                "connector-early",
                properties(
                    name="early",
                    topics="data",
                    db_password=SECRET,
                    db_token="${file:/etc/secrets:token}",
                    offsets_storage_topic="early-offsets",
                ),
            ),
            pair("connector-partly", properties(name="partly")),
            pair("commit-partly", '{"tasks":2}'),
            pair("tasks-fencing-partly", '{"task-count":3}'),
            pair("target-state-x", "{not json"),
            pair("nonsense", "{}"),
        ],
    )
    site.lay_down("own", TopicType.OFFSET, [pair('["early",{}]', "1" * 500), pair('["early",{}]', None)])
    status = '{{"state":"RUNNING","trace":null,"worker_id":"{}","generation":3}}'
    site.lay_down(
        "own",
        TopicType.STATUS,
        [pair("status-task-early-0", status.format("one:1")), pair("status-connector-early", status.format("two:2"))],
    )
    with site.admin() as admin:
        site.create_topic(admin, site.topic("shared", CONFIG), 1, {"max.message.bytes": "1000"})
    site.lay_down(
        "shared",
        CONFIG,
        [
            (f"{group}.connector-early", properties(name="early", topics="data"), 0)
            for group in ("eu.orders", live, "third")
        ],
    )
    source = site.worker_file("own", live, sharing=False, exactly_once_source_support="preparing")
    return source, site.worker_file("shared", "com.acme.orders", sharing=True), live


def test_facts_of_a_rich_scene(site: Site) -> None:
    source, destination, live = a_scene(site)
    second = site.worker_file("own", "other", sharing=False)
    topic = site.topic("own", TopicType.OFFSET)
    open_one = in_transaction(site.settings, site.name, pairs_of(topic, [(b'["early",{"x":1}]', b"{}")], 4))
    with ConnectMember(site.bootstrap_servers, live):
        found = survey([source], [destination])
        code, out, err = run("survey", "--source-worker-config", source, "--destination-worker-config", destination)
        both = survey([source, second], [destination])
        alone = run("survey", "--source-worker-config", source, "--output", "json")
        tables = run("survey", "--source-worker-config", source)[1]
    open_one.abort_transaction(120)

    topics = {topic.topic: topic for topic in found.topics}
    assert len(topics) == 6
    own = topics[site.topic("own", CONFIG)]
    assert (own.exists, own.replication_factor, own.illegal_keys, len(own.topic_id or "")) == (True, 1, 1, 22)
    assert own.configs["cleanup.policy"] == "compact"
    assert own.named_by == (str(source),)
    assert [(part.start, part.end) for part in own.partitions] == [(0, 14)]
    assert [part.partition for part in topics[topic].partitions if part.transaction_open] == [4]
    assert [topics[site.topic("shared", each)].exists for each in TopicType] == [True, False, False]

    phases = [json.loads(line) for line in err.splitlines() if line.startswith('{"phase"')]
    assert all(phase["records"] > 0 for phase in phases if phase["ended"] and phase["of_at_most"] > 0)
    what_there_is = Survey.model_validate({k: v for k, v in json.loads(alone[1]).items() if k[0] != "_"})
    assert (alone[0], what_there_is.moves, what_there_is.collisions) == (0, (), ())
    assert what_there_is.topics == tuple(topic for topic in found.topics if topic.named_by == (str(source),))
    assert [(group.group, group.side) for group in what_there_is.groups] == [(None, "source")]
    assert "MOVES" not in tables

    groups = {group.group: group for group in found.groups}
    assert set(groups) == {None, "eu.orders", live, "third"}
    plain = groups[None]
    assert (plain.group_ids, plain.members, plain.alive, plain.side) == ((live,), 1, True, "source")
    assert (plain.exactly_once, plain.tasks, plain.unparseable) == ("preparing", 3, 1)
    assert (groups["third"].members, groups["third"].alive, groups["third"].exactly_once) == (0, False, None)
    assert groups[live].alive
    connectors = {connector.name: connector for connector in plain.connectors}
    assert set(connectors) == {"a.b", "early", "partly"}
    early, partly = connectors["early"], connectors["partly"]
    assert (early.sink, early.own_offsets_topic, early.state_mode, early.offset_records) == (True, True, "heals", 3)
    assert early.worker_ids == ("one:1", "two:2")
    assert (partly.state_mode, partly.fenced_tasks, partly.inconsistent) == ("leaves_without_tasks", 3, True)
    assert [(each.connector, each.property) for each in plain.secrets] == [("early", "db.password")]
    assert plain.records == sum(
        sum(g.records for g in topic.groups) for topic in found.topics if "-own-" in topic.topic
    )

    (move,) = found.moves
    assert (move.becomes, move.records_at_destination, move.members_at_destination) == ("com.acme.orders", 0, 0)
    config = next(group for group in own.groups if group.group is None)
    assert config.largest_bytes < move.largest[CONFIG].largest_bytes
    assert (move.largest[CONFIG].limit_bytes, move.largest[CONFIG].fits) == (1000, True)
    assert [(each.connector, each.sinks) for each in found.collisions] == [("early", 4)]
    assert found.unanswered == ()

    assert code == 0, err
    assert SECRET not in out + err + found.model_dump_json()
    for text in (
        f"{topic}[4]: a transaction is open",
        "1 record(s) whose key Connect does not write there",
        "1 connector(s) have an offsets topic of their own: 'early'",
        "1 secret(s) in clear text in connectors ('early' db.password)",
        "they share the consumer group connect-early",
        "missing",
    ):
        assert text in out, text
    # Two clusters on the same plain topics: who ran what helps to assign.
    (plain,) = [group for group in both.groups if group.group is None]
    assert (plain.group_ids, plain.members) == ((live, "other"), 1)
    assert both.topics[0].named_by == (str(source), str(second))
    assert [move.becomes for move in both.moves] == [live, "other"]  # one destination: each keeps its name
    assert both.moves[0].records_at_destination == 1


def test_a_source_whose_topic_is_not_there_is_a_failure(site: Site) -> None:
    file = site.worker_file("nowhere", "g", sharing=False)
    code, out, _ = run("survey", "-w", file)
    assert code == 1
    assert f"{site.topic('nowhere', CONFIG)}: config.storage.topic of {file}; check the name" in out
    assert run("survey", "-w", file, "--output", "json")[0] == 1


def test_json_and_the_way_out_and_a_record_that_does_not_fit(site: Site) -> None:
    site.create("shared", SHARED_PARTITIONS)
    with site.admin() as admin:
        site.create_topic(admin, site.topic("out", CONFIG), 1, {"max.message.bytes": "200"})
    site.lay_down("shared", CONFIG, [("g.connector-a\x1b[31m", properties(name="a", x="y" * 100), 0)])
    arguments = (
        "--source-worker-config",
        site.worker_file("shared", "g", sharing=True),
        "--destination-worker-config",
        site.worker_file("out", "g", sharing=False),
    )
    code, out, _ = run("survey", *arguments, "--output", "json")
    told = json.loads(out)
    assert (code, told["_command"]) == (0, "survey")
    found = Survey.model_validate({name: told[name] for name in Survey.model_fields})
    (move,) = found.moves
    assert (move.becomes, move.largest[CONFIG].limit_bytes, move.largest[CONFIG].fits) == (None, 200, False)
    assert "the destination takes 200" in run("survey", *arguments)[1]
    assert "\x1b" not in run("survey", *arguments)[1]


def test_what_does_not_answer_is_named_and_the_rest_shown(site: Site) -> None:
    site.create("own")
    site.lay_down("own", CONFIG, SMALL[CONFIG])
    source = site.worker_file("own", "orders", sharing=False)
    to = site.folder / "away.properties"
    to.write_text(source.read_text().replace(site.bootstrap_servers, "127.0.0.1:1").replace("-own-", "-shared-"))
    code, out, _ = run("survey", "--source-worker-config", source, "--destination-worker-config", to, "--timeout", "8")
    assert code == 1
    assert "NOT ANSWERED" in out
    assert "a.b" not in out.split("GROUPS")[0]
    assert "unknown: count as alive" in out
