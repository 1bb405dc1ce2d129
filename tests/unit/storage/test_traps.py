"""What embedders fell over: imports that warn, and a listener whose text is logged."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from connect_share import ConfigUpdateListener, MemoryConnectStorage


@pytest.mark.parametrize(
    "module", ["connect_share.runtime.member", "connect_share.exporter", "connect_share.pytest_plugin"]
)
def test_an_import_warns_of_nothing(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {module}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_listener_raises_is_not_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(ConfigUpdateListener):
        def on_connector_config_update(self, connector: str) -> None:
            raise KeyError("s3cret")

    caplog.set_level(logging.INFO)
    with MemoryConnectStorage(update_listener=Raising()) as storage:
        storage.config.put_connector_config("c", {"name": "c"})
        assert storage.config.listener_failures == 1
    assert "The update listener failed for ConnectorConfigUpdated: KeyError (raised at " in caplog.text
    assert "test_traps.py" in caplog.text
    assert "s3cret" not in caplog.text
