"""Every command that writes to a sealed group whose worker file has lost its keys, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from connect_share.errors import SealedGroupError
from connect_share.files import Silent
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.worker_config import WorkerConfig
from spark_jobs.generate_workload import generate
from spark_jobs.workload import WorkloadSize
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.sealed import key_text, keys_by_provider, sealed
from tests.support.sealed_sites import done, left, life, planned, worker
from tests.support.sealed_stores import MODE, SECRET

Call = Callable[..., Any]


def everything(site: Site) -> dict[str, list[Any]]:
    """All records of the topics that are there."""
    names = [site.topic(who, kind) for who in ("shared", "own", "plain", "new") for kind in TopicType]
    with site.admin() as admin:
        there = admin.describe_topics(names)
    return {name: site.read(name) for name in sorted(there)}


@pytest.fixture
def lines(site: Site) -> tuple[Path, str]:
    """The worker file of a sealed group, whose keys a provider gives, and its text."""
    site.create("shared", SHARED_PARTITIONS)
    path = site.worker_file("shared", "a", sharing=True)
    lines = [f"{name}={value}" for name, value in keys_by_provider(site.folder).items()]
    path.write_text("\n".join([path.read_text(), *lines]))
    return path, path.read_text()


def refusals(site: Site, path: Path, whole: str, says_lost: str) -> dict[str, tuple[Callable[[], None], str]]:
    """What may happen to the file or its keys, and what has to be said then."""
    keys = site.folder / "keys.properties"

    def without(*parts: str) -> str:
        return "\n".join(line for line in whole.splitlines() if not any(part in line for part in parts))

    return {
        "line lost": (lambda: put(path, without(KEYS_PROPERTY)), says_lost),
        "another key": (lambda: put(keys, f"keys={key_text(9)}\n"), KEYS_PROPERTY),
        "keys unreadable": (keys.unlink, KEYS_PROPERTY),
        "provider away": (lambda: put(path, without("config.providers")), KEYS_PROPERTY),
    }


def put(path: Path, text: str) -> None:
    path.write_text(text)


def test_nothing_is_written_until_the_line_is_back(site: Site, lines: tuple[Path, str], call: Call) -> None:
    path, whole = lines
    life(path, "c", "d")
    backup = site.folder / "a.avro"
    assert call("export", "-w", path, "-o", backup).code == 0
    plain = worker(site, "plain", "p")
    life(plain, "x")
    unsealed = worker(site, "plain", "a")  # the same group id from before it was sealed
    life(unsealed, "c")
    before_sealing = site.folder / "plain.avro"
    assert call("export", "-w", unsealed, "-o", before_sealing).code == 0
    fresh, copied = worker(site, "new", "b"), worker(site, "own", "e", 7)
    planning = ("plan", "-o", site.folder / "new.json")
    ready = site.folder / "ready.json"
    source = ("--source-worker-config", path, "--destination-worker-config", fresh)
    assert run("plan", *source, "-o", ready)[0] == 0
    back = site.folder / "back.json"
    into = ("--source-worker-config", plain, "--destination-worker-config", path, "--job", "x")
    assert run("plan", *into, "-o", back)[0] == 0
    applied = planned(site, path, copied)
    before, state = everything(site), life(path)
    offsets = site.folder / "offsets.json"
    offsets.write_text(json.dumps({"offsets": [{"partition": {"filename": "x.txt"}, "offset": {"position": 0}}]}))
    console: list[tuple[Any, ...]] = [
        ("restore", backup, "-w", path),
        ("restore", before_sealing, "-w", path),
        ("delete", "group", "a", "-w", path),
        ("repair", "order", "-w", path),
        ("repair", "orphans", "--offsets", "-w", path),
        ("reset", "offsets", "c", "-w", path, "--force", "--backup-dir", site.folder),
        ("alter", "offsets", "c", "--file", offsets, "-w", path, "--force", "--backup-dir", site.folder),
        ("copy", "offsets", "c", "--to", "d", "-w", path, "--force", "--backup-dir", site.folder),
        ("copy", "offsets", "x", "--to-worker-config", path, "-w", plain, "--force", "--backup-dir", site.folder),
    ]
    moves: list[tuple[Any, ...]] = [
        ("restore", before_sealing, "--destination-worker-config", path, "--yes"),
        ("reseal", "--worker-config", path, "--yes"),
        (*planning, *source),
        (*planning, *into),
        *((command, plan, "--yes") for plan in (ready, back) for command in ("apply", "resume")),
        *((command, applied, "--yes") for command in ("cutover", "seal", "unseal", "rollback")),
    ]
    for what, (harm, says) in refusals(site, path, whole, f"no line {KEYS_PROPERTY}: put it back").items():
        harm()
        if what == "line lost":
            assert call("get", "connectors", "-w", path).out.count("[sealed]  [sealed]  [sealed]") == 2
            assert "configuration: [sealed]" in call("describe", "connector", "c", "-w", path).out
            assert "delete group" not in call("check", "all", "-w", path).out
        for words in console:
            ran = call(*words, "--yes")
            assert ran.code > 0, (what, words)
            assert says in ran.err, (what, words, ran.err)
        for words in moves:
            code, said, errors = run(*words)
            assert code > 0, (what, words)
            # After a plan a file has to say what it said then.
            assert (says if words[0] in {"plan", "restore"} else KEYS_PROPERTY) in errors, (what, words, errors)
            assert SECRET.decode() not in said + errors
        assert everything(site) == before, what
        put(path, whole)
        keys_by_provider(site.folder)
    assert life(path) == state
    assert done("rollback", applied)
    assert left(copied) == []


def test_a_group_that_was_sealed_after_its_move_is_not_rolled_back_in_plain(site: Site) -> None:
    site.create("own shared", SHARED_PARTITIONS)
    source, destination = worker(site, "own", "a"), worker(site, "shared", "b")
    life(source, "c")
    plan = planned(site, source, destination)
    accept = worker(site, "shared", "b", 7, mode="accept")
    life(accept, "d")
    done("reseal", "--worker-config", accept)
    before, state = everything(site), life(accept)
    for command in (("rollback", plan, "--although-used"), ("seal", plan), ("unseal", plan)):
        code, _, errors = run(*command, "--yes")
        assert code == 1
        assert f"no line {KEYS_PROPERTY}: put it back" in errors or "not sealed" in errors
    assert (everything(site), life(accept)) == (before, state)


def test_what_only_writes_plain_values_writes_none_over_sealed_ones(site: Site, call: Call) -> None:
    site.create("shared", SHARED_PARTITIONS)
    size = WorkloadSize(groups=3, config_records=30, status_records=30, offset_records=30)
    path, other = worker(site, "shared", size.group_id(1), 7), worker(site, "shared", "other")
    state, before = life(path, "c", "d"), everything(site)
    with pytest.raises(SealedGroupError, match=f"of group {size.group_id(1)} on the config topic look sealed"):
        generate(cast("Any", None), WorkerConfig.from_file(other), size, progress=Silent())
    refused = call("delete", "group", size.group_id(1), "-w", other, "--yes")
    assert (refused.code, "put it back" in refused.err) == (1, True)
    assert (everything(site), life(path)) == (before, state)


def test_a_few_sealed_records_of_a_stranger_stop_nothing(site: Site, call: Call) -> None:
    """Nor many, where the file says that the group is plain."""
    site.create("shared", SHARED_PARTITIONS)
    path = worker(site, "shared", "a")
    life(path, "c", "d")
    topic = site.topic("shared", TopicType.CONFIG)
    site.produce([sealed(Record(topic, 0, 0, 1, b"a.connector-evil", b"{}"))])
    options = ("-w", path, "--yes")
    assert call("reset", "offsets", "c", "--force", "--backup-dir", site.folder, *options).code == 0
    assert call("repair", "order", *options).code == 0
    site.produce([sealed(Record(topic, 0, 0, 1, b"a.connector-evil%d" % number, b"{}")) for number in range(20)])
    assert "put it back" in call("repair", "order", *options).err
    put(path, f"{path.read_text()}\n{MODE}=off")
    assert call("repair", "order", *options).code == 0
    assert call("delete", "group", "a", *options).code == 0
    assert left(path) == []
