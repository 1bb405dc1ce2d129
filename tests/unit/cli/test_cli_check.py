"""``check worker-config`` and ``worker-jar`` on the command line, without a cluster."""

from __future__ import annotations

import shutil
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from connect_share.jar import INTERCEPTOR_CLASS, JAR_NAME, jar_path
from connect_share.worker_config import SHARING_PROPERTY
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.console import console

LINES = {SHARING_PROPERTY: "enabled", "interceptor.classes": INTERCEPTOR_CLASS}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("KAFKA_HOME", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)

    return console(capsys)


@pytest.fixture
def libs(tmp_path: Path) -> Path:
    folder = tmp_path / "kafka" / "libs"
    folder.mkdir(parents=True)
    shutil.copy(jar_path(), folder / JAR_NAME)
    return folder


def worker_file(tmp_path: Path, **more: str) -> Path:
    lines = {name.replace("__", "."): value for name, value in more.items()}
    return write_properties(
        tmp_path / "worker.properties", {**worker_properties("127.0.0.1:1", "com.acme"), **LINES, **lines}
    )


def test_a_right_file(run: Any, tmp_path: Path, libs: Path) -> None:
    file = worker_file(tmp_path)
    ran = run("check", "worker-config", file, "--offline", "--libs", libs)
    assert (ran.code, ran.out, ran.err) == (0, f"{file}: right for topic sharing\n", "")
    result = run("check", "worker-config", file, "--offline", "--libs", libs, "--output", "json").json
    assert result["_command"] == "check worker-config"
    assert result["_version"] == version("connect-share")
    assert (result["ok"], result["findings"], result["add"]) == (True, [], [])
    assert (result["connectors_checked"], result["connectors"]) == (False, None)
    assert [jar["path"] for jar in result["jars"]] == [str(libs / JAR_NAME)]


def test_a_plain_file_gets_the_lines_to_add(run: Any, tmp_path: Path, libs: Path) -> None:
    file = write_properties(tmp_path / "w.properties", worker_properties("127.0.0.1:1", "com.acme"))
    ran = run("check", "worker-config", file, "--offline", "--libs", libs)
    assert ran.code == 1
    lines = [f"{name}={value}" for name, value in LINES.items()]
    result = ran.out.splitlines()
    block = result.index(f"add to {file} (at its end: of several lines for one name the last one counts):")
    assert result[block + 1 : block + 3] == lines
    assert result[-1] == f"{file}: wrong for topic sharing (2 errors)"
    assert [line.split(":")[0] for line in result[:2]] == ["error", "error"]
    assert all(f"; add {line}" in one for line, one in zip(lines, result, strict=False))
    found = run("check", "worker-config", file, "--offline", "--libs", libs, "--output", "json").json
    assert found["add"] == lines
    assert {finding["severity"] for finding in found["findings"]} == {"error"}


def test_a_resource_gets_lines_of_its_own_form(run: Any, tmp_path: Path, libs: Path) -> None:
    """Added as it is said, under ``spec.config``, it is right; Strimzi drops interceptors of producers and consumers."""
    file, properties = tmp_path / "connect.yaml", worker_properties("127.0.0.1:1", "com.acme")
    config = properties | {"exactly.once.source.support": "enabled"}
    head = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnect\nmetadata:\n  name: c\nspec:\n"
    text = f"{head}  bootstrapServers: 127.0.0.1:1\n  config:\n" + "".join(
        f"    {k}: '{v}'\n" for k, v in config.items()
    )
    file.write_text(text)
    said = run("check", "worker-config", file, "--offline", "--libs", libs).out.splitlines()
    block = said[said.index(f"add to {file} (under spec.config):") + 1 :]
    added = block[: block.index("")]
    assert [each for each in added if each.startswith(("producer.", "consumer."))] == []
    file.write_text(text + "".join(f"    {each}\n" for each in added))
    assert run("check", "worker-config", file, "--offline", "--libs", libs).code == 0


def test_where_the_jar_is_looked_for(run: Any, tmp_path: Path, libs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, empty = worker_file(tmp_path), tmp_path / "empty"
    empty.mkdir()

    def found(*words: str | Path) -> tuple[int, int, list[str]]:
        ran = run("check", "worker-config", file, "--offline", "--output", "json", *words)
        return ran.code, len(ran.json["jars"]), [one["severity"] for one in ran.json["findings"]]

    assert found("--libs", empty) == (1, 0, ["error"])
    assert found("--libs", empty, "--libs", libs) == (0, 1, [])
    monkeypatch.setenv("KAFKA_HOME", str(libs.parent))
    assert found() == (0, 1, [])
    assert found("--libs", empty) == (1, 0, ["error"])
    monkeypatch.setenv("KAFKA_HOME", str(empty))
    assert found() == (0, 0, ["warning"])
    monkeypatch.setenv("CLASSPATH", f"/nowhere/x.jar:{libs}/*:{libs / JAR_NAME}")
    assert found() == (0, 1, [])
    second = tmp_path / "second.jar"
    shutil.copy(jar_path(), second)
    monkeypatch.setenv("CLASSPATH", f"{second}:{libs}/*")
    assert found("--libs", libs) == (1, 2, ["error"])
    monkeypatch.delenv("CLASSPATH")
    file = worker_file(tmp_path, plugin__path=f"/nowhere, {libs.parent}")
    ran = run("check", "worker-config", file, "--offline", "--libs", libs)
    assert ran.code == 0
    assert ran.out.startswith(f"warning: plugin.path has the jar ({libs / JAR_NAME})")


def test_a_broker_that_does_not_answer(run: Any, tmp_path: Path, libs: Path) -> None:
    words = ["check", "worker-config", worker_file(tmp_path), "--libs", libs, "--timeout", "1"]
    ran = run(*words)
    assert ran.code == 0
    assert "connect-share: connectors were not checked: no answer from 127.0.0.1:1" in ran.err
    result = run(*words, "--output", "json")
    assert (result.code, result.json["connectors_checked"], result.json["findings"]) == (0, False, [])


def test_a_file_that_java_cannot_read_either(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_text("group.id=\\u00zebra\n")
    ran = run("check", "worker-config", file)
    assert ran.code == 1
    assert ran.out.startswith(f"error: {file}: line 1: malformed \\uXXXX")
    assert "zebra" not in ran.out + ran.err
    (finding,) = run("check", "worker-config", file, "--output", "json").json["findings"]
    assert (finding["severity"], finding["property"]) == ("error", None)


def test_the_jar_is_handed_out(run: Any, tmp_path: Path) -> None:
    assert run("worker-jar").out == f"{jar_path()}\n"
    where = run("worker-jar", "--output", "json").json
    assert (where["_command"], where["path"], where["class"]) == ("worker-jar", str(jar_path()), INTERCEPTOR_CLASS)
    target = tmp_path / JAR_NAME
    first = run("worker-jar", "--to", tmp_path)
    assert first.code == 0
    number = version("connect-share")
    assert first.out.splitlines()[:4] == [
        f"{target}: version {number} written",
        "",
        "add to the worker file:",
        f"{SHARING_PROPERTY}=enabled",
    ]
    assert f"\nconsumer.interceptor.classes={INTERCEPTOR_CLASS}\n" in first.out
    again = run("worker-jar", "--to", tmp_path)
    assert again.out.startswith(f"{target}: version {number} is there already, nothing was written\n")
    same = run("worker-jar", "--to", tmp_path, "--output", "json").json
    assert (same["path"], same["written"], same["replaced"]) == (str(target), False, None)
    assert same["sha256"] == where["sha256"]
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("connectshare/TopicSharingInterceptor.class", b"x")
        archive.writestr("connectshare/version.properties", "version=0.0.1\n")
    words = "in place of an older version (0.0.1) than the one of this installation"
    replaced = run("worker-jar", "--to", tmp_path)
    assert replaced.out.startswith(f"{target}: version {number} written, {words} ({number})\n")
    shutil.copy(jar_path(), tmp_path / "connect-share-0.0.1.jar")
    assert f"{tmp_path / 'connect-share-0.0.1.jar'} has the interceptor too" in run("worker-jar", "--to", tmp_path).err
