"""The loop of docs/mirror-loop.md runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from connect_share.model.config_state import TargetState
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, Site, pair

PAGE = Path(__file__).parents[2] / "docs" / "mirror-loop.md"


def example() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(code)


def mirror(site: Site, topic_type: TopicType) -> str:
    topics = (site.topic("own", topic_type), site.topic("shared", topic_type))
    done = subprocess.run(
        [sys.executable, "-c", example(), site.bootstrap_servers, *topics, topic_type.value, GROUP],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_loop_of_the_page(site: Site) -> None:
    site.small_source()
    site.create("shared", SHARED_PARTITIONS)
    site.lay_down(
        "own",
        TopicType.CONFIG,
        [pair("connector-gone", "{}"), pair("connector-gone", None), pair("other.connector-x", "{}")],
    )
    told = {topic_type: mirror(site, topic_type) for topic_type in TopicType}
    assert told[TopicType.CONFIG] == ("{'already_prefixed': 1, 'restart_request': 1, 'session_key': 1, 'written': 6}\n")
    assert told[TopicType.OFFSET] == "{'written': 1}\n"
    copies = {topic_type: site.read(site.topic("shared", topic_type)) for topic_type in TopicType}
    for topic_type, records in copies.items():
        assert all(r.partition == partition_for(r.key or b"", SHARED_PARTITIONS[topic_type]) for r in records)
    config = replay_config(copies[TopicType.CONFIG], GROUP)
    assert (set(config.connectors()), config.task_count("a.b")) == ({"a.b"}, 1)
    assert config.target_state("a.b") is TargetState.STOPPED
    assert (copies[TopicType.CONFIG][-1].key, copies[TopicType.CONFIG][-1].value) == (
        f"{GROUP}.target-state-".encode(),
        b"null",
    )
    for replay, topic_type in ((replay_status, TopicType.STATUS), (replay_offsets, TopicType.OFFSET)):
        assert replay(copies[topic_type], GROUP) == replay(site.read(site.topic("own", topic_type)))
        assert {r.timestamp_ms for r in copies[topic_type]} == {
            r.timestamp_ms for r in site.read(site.topic("own", topic_type))
        }
    # Progress was committed: what comes later is copied once.
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":43}')])
    assert mirror(site, TopicType.OFFSET) == "{'written': 1}\n"
    assert mirror(site, TopicType.OFFSET) == "{}\n"
