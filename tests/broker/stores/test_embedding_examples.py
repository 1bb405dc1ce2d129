"""The examples of docstrings and of pages that need a broker."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import connect_share
from tests.support.examples import PUBLIC_NAMES, WORKER, example, examples, run


def run_page(page: str, **given: Any) -> dict[str, Any]:
    """Run the example of a page with the public names and what is given; return all names afterwards."""
    names = {name: getattr(connect_share, name) for name in PUBLIC_NAMES} | given
    exec(compile(example(page), page, "exec"), names)
    return names


def test_config_providers(shared: Any) -> None:
    found = run_page(
        "config-providers.md", worker=shared.sharing(), read_secret=lambda path, key: f"hunter2-{path}-{key}"
    )
    assert found["config"] == {"name": "c", "password": "hunter2-db-password"}
    assert found["raw"]["password"] == "${vault:db:password}"
    assert found["secret_in_clear"] == []
    assert found["transformer"].next_reload_s() > 0
    values = b"\n".join(value or b"" for _, value in shared.read("config"))
    assert b'{"properties":{"name":"c","password":"${vault:db:password}","table":"items"}}' in values
    assert b"hunter2" not in values


def test_exactly_once_tasks(shared: Any) -> None:
    topic = f"{shared.unique}-lines"
    shared.create(topic)
    worker = shared.sharing(shared.group, exactly_once_source_support="enabled")
    for lines in (["a", "b"], ["a", "b", "c"]):
        run_page("exactly-once-tasks.md", worker=worker, topic=topic, lines=lines)
    assert [value for _, value in shared.read("lines", topic=topic, isolation="read_committed")] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("example", examples(with_broker=True), ids=lambda example: example.name)
def test_an_example_is_right(shared: Any, example: doctest.DocTest) -> None:
    mode = "enabled" if "task_offset_writer" in example.name else "disabled"
    worker = shared.sharing(shared.group, exactly_once_source_support=mode)
    assert run(example, {WORKER: worker}) == ""
