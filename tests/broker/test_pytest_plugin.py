"""The fixtures for runtimes' own tests: the page's tests pass in memory and on a broker, and leave nothing behind."""

from __future__ import annotations

import re
from pathlib import Path

from connect_share import WorkerConfig
from connect_share.kafka.admin import Admin
from tests.support.kafka import TestBroker
from tests.support.programs import python
from tests.support.waiting import await_that
from tests.support.worker_files import properties_of

PAGE = (Path(__file__).parents[2] / "docs" / "testing-a-runtime.md").read_text("utf-8")
CONFTEST, TESTS = re.findall(r"```python\n(.*?)```", PAGE.partition("## With pytest")[2], re.DOTALL)
MORE = """

import pytest


@pytest.fixture
def connect_worker_properties():
    return {"exactly.once.source.support": "enabled"}


def test_on_asyncio(make_async_connect_storage, connect_storage):
    import asyncio

    async def body():
        async with make_async_connect_storage(allow_empty=True) as storage:
            await storage.config.claim_write_privileges()
            await storage.config.put_connector_config("c", {"name": "c"})
        connect_storage.config.refresh()
        assert connect_storage.config.contains("c")
        with connect_storage.task_offset_writer("c", 0) as writer:
            writer.offset({"a": "b"}, {"position": 1})
            writer.commit()
        assert connect_storage.offset_reader("c").offset({"a": "b"}) == {"position": 1}

    asyncio.run(body())
"""


def test_the_page(broker: TestBroker, tmp_path: Path) -> None:
    """In memory and on a broker, which others use: one after the other, for both leave no topic there."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_page.py").write_text(TESTS)
    (tmp_path / "test_more.py").write_text(MORE)
    for options in ([], [f"--connect-share-bootstrap={broker.bootstrap_servers}"]):
        done = python("-W", "error", "-m", "pytest", "-q", "-p", "no:randomly", *options, tmp_path, cwd=tmp_path)
        said = done.stdout + done.stderr
        assert (done.returncode, done.stdout.splitlines()[-1].split(" in ")[0]) == (0, "3 passed"), said
    worker = WorkerConfig.from_properties(properties_of(broker.bootstrap_servers, "g"))
    with Admin(worker.admin_settings(), client_id="test") as admin:
        names = admin.topic_names  # the controller answers a deletion first
        await_that(names, lambda found: not any(name.startswith("test-") for name in found), what="the topics deleted")


def test_nobody_imports_it_unasked(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\ndef test_nothing():\n    assert not any('connect_share' in name for name in sys.modules)\n"
    )
    assert python("-m", "pytest", "-q", "--rootdir", tmp_path, tmp_path, cwd=tmp_path).returncode == 0
