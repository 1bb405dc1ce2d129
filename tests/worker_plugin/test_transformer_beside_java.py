"""Configurations that refer to config providers: what Connect makes of them and writes of them, and what is made here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from connect_share import ConnectorTaskId, WorkerConfig, WorkerConfigTransformer, replay_config, task_configs_changed
from connect_share.model.config import connector_config_record, task_commit_record, task_config_record
from connect_share.model.records import Record
from tests.support import worker_files
from tests.support.java_tests import classes_of, run_java

pytestmark = pytest.mark.xdist_group("worker_plugin")

SOURCES = Path(__file__).with_name("transformer")
PACKAGE = "org.apache.kafka.common.config.provider."
WORKER = {
    **worker_files.WORKER,
    "config.providers": "f,d",
    "config.providers.f.class": PACKAGE + "FileConfigProvider",
    "config.providers.d.class": PACKAGE + "DirectoryConfigProvider",
}


def question(choose: random.Random, folder: Path) -> dict[str, Any]:
    paths = [f"{folder}/secrets.properties", f"{folder}", "", f"{folder}/gone", f"{folder}/../other", "/etc/hostname"]

    def text() -> str:
        parts = []
        for _ in range(choose.randrange(4)):
            provider = choose.choice(["f", "f", "d", "d", "unknown", ""])
            path = choose.choice([*[paths[0] if provider == "f" else paths[1]] * 6, *paths[2:]])
            path = path if provider != "f" or not path.endswith("/gone") else ""
            key = choose.choice(["password", "password", "user", "self", "gone", "ä", ""])
            reference = choose.choice([*["${%s:%s:%s}"] * 3, "${%s:%s:%s", "$${%s:%s:%s}}", "{%s:%s:%s}"])
            parts += [choose.choice(["", " ", "a", "$", "${", "}", ":"]), reference % (provider, path, key)]
        return "".join(parts)

    names = ["name", "url", "secret", "topics"]
    some = choose.sample(names, choose.randrange(1, 5))
    raw = {name: text() for name in some}
    task = {name: choose.choice([raw.get(name, "x"), "changed", text()]) for name in choose.sample(names, 3)}
    return {
        "raw": raw,
        "task": task,
        "applied": choose.choice([None, raw, {**raw, "name": "before"}]),
        "written": choose.choice([None, task, {name: raw.get(name, value) for name, value in task.items()}]),
    }


def answer(transformer: WorkerConfigTransformer, asked: dict[str, Any]) -> dict[str, Any]:
    raw, written = asked["raw"], asked["written"]
    pairs = []
    if asked["applied"] is not None:
        pairs.append(connector_config_record("c", asked["applied"]))
    if written is not None:
        pairs.append(task_config_record(ConnectorTaskId("c", 0), written))
    pairs.append(task_commit_record("c", int(written is not None)))
    pairs.append(connector_config_record("c", raw))
    records = [Record("configs", 0, number, 0, *pair) for number, pair in enumerate(pairs)]
    state = replay_config(records).transformed_by(transformer)
    reversed_config = transformer.reverse(raw, asked["task"])
    assert state.raw_connector_config("c") == raw
    return {
        "transformed": state.connector_config("c"),
        "reversed": reversed_config,
        "changed": task_configs_changed(state, "c", [reversed_config]),
    }


def test_configurations_become_what_java_makes_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "secrets.properties").write_text("password=s3cret\nuser=a\\u00fc\nself=${f:x:password}\nä=ö\n", "utf-8")
    for name, content in (("password", "two\nlines\n"), ("user", ""), ("self", "${d:x:y}"), ("ä", "ü")):
        (folder / name).write_text(content, "utf-8")
    (tmp_path / "other").mkdir()
    choose = random.Random(297)
    asked = [question(choose, folder) for _ in range(2_000)]

    main_class = "org.apache.kafka.connect.runtime.TransformAnswers"
    properties = WORKER | {f"config.providers.{name}.param.allowed.paths": str(folder) for name in "fd"}
    given = "\n".join(json.dumps(each) for each in asked)
    done = run_java(classes_of(SOURCES), main_class, folder=tmp_path, given=given, arguments=(str(folder),))

    assert done.returncode == 0, done.stderr[-2_000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    transformer = WorkerConfigTransformer(WorkerConfig.from_properties(properties))
    ours = [answer(transformer, each) for each in asked]
    assert ours == answers
    assert {each["changed"] for each in ours} == {True, False}
    assert sum("s3cret" in str(each["transformed"]) for each in ours) > 150
    assert sum(each["reversed"] != one["task"] for each, one in zip(ours, asked, strict=True)) > 150
