"""Command lines of releases end as they did, and print every member of JSON that they printed; they may print more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.embedded.broker import LocalBroker
from tests.lab.release_fixtures.commands import command_lines, played, set_the_stage
from tests.lab.release_fixtures.scenes import Scene
from tests.lab.release_fixtures.topics import Cluster
from tests.unit.cli.test_cli_arguments import COMMANDS


@pytest.mark.broker
def test_command_lines_give_what_they_gave(release: Path, tmp_path: Path, own_broker: LocalBroker) -> None:
    """On a broker of its own: ``discover`` looks at all that there is."""
    recorded = json.loads((release / "commands.json").read_text())
    stage = Scene(Cluster(own_broker.bootstrap_servers), tmp_path, "played")
    set_the_stage(stage)
    wrong = {}
    for before, now in zip(recorded, played(stage, [each["words"] for each in recorded]), strict=True):
        missing = {
            f"{what} {place}": (types, now.get(what, {}).get(place))
            for what in ("result", "error")
            for place, types in before.get(what, {}).items()
            if types != now.get(what, {}).get(place)
        }
        if missing or before["code"] != now["code"]:
            wrong[" ".join(before["words"])] = (before["code"], now["code"], missing)
    assert wrong == {}


def test_the_next_release_is_recorded_with_every_command() -> None:
    recorded = {" ".join(words[:length]) for words in command_lines() for length in (2, 3)}
    assert COMMANDS.keys() <= recorded
