"""The KafkaConnect resources in the docs, read by Strimzi's own classes: nothing unknown, nothing dropped, a right worker."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from connect_share.checks.finding import Severity
from connect_share.checks.worker_file import check_properties
from connect_share.jar.java_runtime import java_command
from connect_share.sealing import KEYS_PROPERTY
from connect_share.worker_config import TOPIC_PROPERTIES
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.java_program import compile_java
from tests.lab.embedded.jvm import QUICK

pytestmark = pytest.mark.xdist_group("worker_plugin")

PAGE = Path(__file__).parents[2] / "docs" / "strimzi.md"
SOURCES = Path(__file__).with_name("strimzi")
JAVA_17 = 61
OWN_FIELDS = ("group.id", *TOPIC_PROPERTIES.values())


def recipes() -> tuple[str, str, str]:
    """The resource of the docs, and the same with what it says of exactly-once and of sealed values."""
    plain, more, seals, _user = re.findall(
        r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return plain, plain + more, plain + seals


def for_this_java(jars: Path, folder: Path) -> None:
    """Copy jars with class files of Java 17: Strimzi's are marked as Java 21's, and these classes use nothing of it."""
    folder.mkdir()
    for jar in jars.glob("*.jar"):
        with zipfile.ZipFile(jar) as old, zipfile.ZipFile(folder / jar.name, "w") as new:
            for entry in old.infolist():
                data = old.read(entry)
                if entry.filename.endswith(".class") and int.from_bytes(data[6:8], "big") > JAVA_17:
                    data = data[:6] + JAVA_17.to_bytes(2, "big") + data[8:]
                new.writestr(entry, data)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What Strimzi reads: our recipes, and what must be noticed."""
    plain, exactly_once, sealed = recipes()
    texts = {
        "plain": plain,
        "exactly once": exactly_once,
        "sealed": sealed,
        "lines": re.sub(
            r"connector\.client\..*",
            "producer.interceptor.classes: connectshare.TopicSharingInterceptor\n"
            "    consumer.interceptor.classes: connectshare.TopicSharingInterceptor",
            exactly_once,
        ),
        "old": plain.replace("  groupId: com.acme.orders\n", "").replace("  config:\n", "  config:\n    group.id: a\n"),
        "unknown": plain.replace("groupId", "groupID"),
        "version": plain.replace("/v1\n", "/v1beta2\n"),
    }
    folder = tmp_path_factory.mktemp("strimzi")
    for_this_java(ensure_artifacts("strimzi-api"), folder / "jars")
    libraries = f"{class_path(folder / 'jars')}:{class_path(ensure_artifacts('kafka-4.3.1'))}"
    compile_java(sorted(SOURCES.glob("*.java")), folder, libraries, options=["-nowarn"])
    done = subprocess.run(
        [str(java_command()), *QUICK, "-cp", f"{folder}:{libraries}", "StrimziAnswers"],
        input=json.dumps(list(texts.values())),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return dict(zip(texts, json.loads(done.stdout), strict=True))


def dropped(answer: dict[str, Any]) -> list[str]:
    """What the operator leaves out of the worker's properties."""
    return [
        name
        for name in answer["config"]
        if name.lower().startswith(tuple(answer["forbidden"])) and name not in answer["exceptions"]
    ]


def errors(answer: dict[str, Any]) -> list[str]:
    """What is wrong with the worker file that Strimzi makes of a resource."""
    left_out = dropped(answer)
    properties = {name: str(value) for name, value in answer["config"].items() if name not in left_out}
    for name in ("bootstrap.servers", *OWN_FIELDS):
        if answer[name] is not None:
            properties[name] = answer[name]
    for converter in ("key.converter", "value.converter"):
        properties.setdefault(converter, "org.apache.kafka.connect.json.JsonConverter")
    found = check_properties(properties).findings
    return [finding.property_name for finding in found if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("recipe", ["plain", "exactly once", "sealed"])
def test_recipes_are_read_whole_and_give_a_right_worker(answers: dict[str, dict[str, Any]], recipe: str) -> None:
    answer = answers[recipe]
    assert answer["served"]
    assert answer["unknown"] == []
    assert all(answer[name] for name in OWN_FIELDS)
    assert dropped(answer) == []
    assert errors(answer) == []
    assert ("exactly.once.source.support" in answer["config"]) == (recipe == "exactly once")
    assert (KEYS_PROPERTY in answer["config"]) == (recipe == "sealed")


def test_what_strimzi_refuses_is_noticed(answers: dict[str, dict[str, Any]]) -> None:
    lines = [f"{kind}.interceptor.classes" for kind in ("producer", "consumer")]
    assert dropped(answers["lines"]) == lines
    assert errors(answers["lines"]) == lines
    assert dropped(answers["old"]) == ["group.id"]
    assert "group.id" in errors(answers["old"])
    assert answers["unknown"]["unknown"] == ["spec.groupID"]
    assert not answers["version"]["served"]
