"""The examples of the README and of docs/mirror-loop.md run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from connect_share.model.config_state import TargetState
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.worker_config import SHARING_PROPERTY
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.examples import example
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, Site, pair
from tests.support.programs import python

README = Path(__file__).parents[2] / "README.md"


def _example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.mark.parametrize("sharing", ["enabled", "disabled"])
def test_the_embedding_example(broker: TestBroker, unique: str, tmp_path: Path, sharing: str) -> None:
    code = _example()
    assert len(code.strip().splitlines()) <= 12
    properties = {**worker_properties(broker.bootstrap_servers, unique), SHARING_PROPERTY: sharing}
    write_properties(tmp_path / "worker.properties", properties)
    done = python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['my.conn'] {'position': 42}\n", "")


@pytest.mark.skipif(not LONG, reason="installs from the package index: make soak")
def test_a_newcomers_first_session(broker: TestBroker, unique: str, tmp_path: Path) -> None:
    """Nothing but a checkout and a broker, up to the first offset that a second process finds committed."""
    began = time.monotonic()
    newcomers = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", "--depth=1", README.parent.as_uri(), checkout], check=True)
    subprocess.run([newcomers, "-m", "pip", "install", "-q", "."], cwd=checkout, check=True)
    installed_s = time.monotonic() - began
    write_properties(tmp_path / "worker.properties", worker_properties(broker.bootstrap_servers, unique))
    look = (
        "from connect_share import ConnectStorage, WorkerConfig\n"
        "with ConnectStorage(WorkerConfig.from_file('worker.properties')) as storage:\n"
        "    print(storage.offset_reader('my.conn').offset({'file': 'in.txt'}))\n"
    )
    for code, printed in ((_example(), "['my.conn'] {'position': 42}\n"), (look, "{'position': 42}\n")):
        command = [str(newcomers), "-I", "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")
    print(f"installed after {installed_s:.1f} s, committed and read again after {time.monotonic() - began:.1f} s")


def test_every_file_the_readme_points_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target


def mirror(site: Site, topic_type: TopicType) -> str:
    topics = (site.topic("own", topic_type), site.topic("shared", topic_type))
    done = python("-c", example("mirror-loop.md"), site.bootstrap_servers, *topics, topic_type.value, GROUP)
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
