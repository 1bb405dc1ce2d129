"""Two clusters with plain keys on the same topics; what two real ones of 4.3.1 wrote looked like this."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_share.cli.__main__ import main
from connect_share.model.status import ConnectorStatus, State
from connect_share.storage import ConnectStorage
from tests.broker.stores.conftest import Shared
from tests.lab.embedded.worker import write_properties
from tests.support.migration_site import run_well

WARNING = "workers one:1 (generation 5) and two:1 (generation 1) write to it alternately"


def test_it_is_said_at_a_start_by_the_check_and_by_the_survey(
    shared: Shared, caplog: pytest.LogCaptureFixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = shared.worker("one")
    with ConnectStorage(plain) as first, ConnectStorage(shared.worker("two")) as second:
        first.config.put_connector_config("a", {"connector.class": "C"})
        for state in (State.PAUSED, State.RUNNING):
            for store, worker, generation in ((first.status, "one:1", 5), (second.status, "two:1", 1)):
                store.put(ConnectorStatus("a", state, worker, generation, None, None))
                store.flush()
    caplog.clear()
    with ConnectStorage(plain):
        pass
    (warned,) = [record.getMessage() for record in caplog.records if "write to it alternately" in record.getMessage()]
    assert WARNING in warned
    assert shared.topics["status"] in warned
    caplog.clear()
    with ConnectStorage(shared.sharing("three"), allow_empty=True):
        pass
    assert "write to it alternately" not in caplog.text  # others' matters are not its own

    files = [
        write_properties(tmp_path / f"{name}.properties", shared.properties(name, **more))
        for name, more in (("one", {}), ("four", {"connect_management_topic_sharing_support": "enabled"}))
    ]
    main(["check", "worker-config", str(files[0])])
    said = f"\nwarning: two Connect clusters with plain keys seem to share topic {shared.topics['status']}: {WARNING}"
    assert said in f"\n{capsys.readouterr().out}"
    assert main(["check", "all", "-w", str(files[1]), "--all"]) == 1
    assert "".join(capsys.readouterr()).count(WARNING) == 1
    assert main(["get", "statuses", "-w", str(files[0])]) == 0
    assert WARNING in capsys.readouterr().err
    out = run_well("survey", "--source-worker-config", files[0], "--destination-worker-config", files[1])
    assert WARNING in out
