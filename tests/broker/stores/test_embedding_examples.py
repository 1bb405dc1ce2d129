"""The examples of docstrings and of pages that need a broker."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from connect_share import ConnectStorage, WorkerConfig
from tests.lab.embedded.worker import write_properties
from tests.support.examples import PAGES, WORKER, example, examples, marked, run
from tests.support.worker_files import SHARING

RunCode = Callable[..., dict[str, Any]]
WITH_TESTS_OF_THEIR_OWN = ("config-providers", "exactly-once-tasks")


@pytest.fixture
def run_code(shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCode:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prometheus_client, "REGISTRY", prometheus_client.CollectorRegistry())

    def run_code(code: str, **overrides: str) -> dict[str, Any]:
        """Run code beside the worker file of a group that shares the topics; return all names afterwards."""
        write_properties(tmp_path / "worker.properties", shared.properties(shared.group, **overrides) | SHARING)
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(code, "example", "exec"), names)
        return names

    return run_code


OTHERS = [(page, code) for page, code in marked(__file__) if page not in WITH_TESTS_OF_THEIR_OWN]


@pytest.mark.parametrize(("page", "code"), OTHERS, ids=[page for page, _ in OTHERS])
def test_a_page(run_code: RunCode, page: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_code(code)
    assert capsys.readouterr().err == ""


def test_the_smallest_worker_file(shared: Any, tmp_path: Path) -> None:
    page = (PAGES[0].parent / "docs/embedding.md").read_text()
    lines = page.partition("```properties\n")[2].partition("```")[0]
    text = lines.replace("127.0.0.1:9092", shared.bootstrap_servers).replace("my-runtime", shared.group)
    (tmp_path / "worker.properties").write_text(text)
    with ConnectStorage(WorkerConfig.from_file(tmp_path / "worker.properties")) as storage:
        assert storage.config.snapshot().connectors() == frozenset()


def test_config_providers(shared: Any, run_code: RunCode) -> None:
    found = run_code(example("config-providers.md"))
    assert found["config"] == {"name": "c", "password": "hunter2-db-password"}
    assert found["raw"]["password"] == "${vault:db:password}"
    assert found["secret_in_clear"] == []
    assert found["transformer"].next_reload_s() > 0
    values = b"\n".join(value or b"" for _, value in shared.read("config"))
    assert b'{"properties":{"name":"c","password":"${vault:db:password}","table":"items"}}' in values
    assert b"hunter2" not in values


def test_exactly_once_tasks(shared: Any, run_code: RunCode) -> None:
    topic = f"{shared.unique}-lines"
    shared.create(topic)
    for lines in ("a\nb\n", "a\nb\nc\n"):
        Path("in.txt").write_text(lines)
        code = example("exactly-once-tasks.md").replace('"lines", Path', f'"{topic}", Path')
        run_code(code, exactly_once_source_support="enabled")
    assert [value for _, value in shared.read("lines", topic=topic, isolation="read_committed")] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("example", examples(with_broker=True), ids=lambda example: example.name)
def test_an_example_is_right(shared: Any, example: doctest.DocTest) -> None:
    mode = "enabled" if "task_offset_writer" in example.name else "disabled"
    worker = shared.sharing(shared.group, exactly_once_source_support=mode)
    assert run(example, {WORKER: worker}) == ""
