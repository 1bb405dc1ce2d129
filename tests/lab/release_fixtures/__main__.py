"""Record what this release writes: ``python -m tests.lab.release_fixtures OUT``; ``tests/releases/README.md``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import connect_share
from tests.lab.embedded.broker import LocalBroker
from tests.lab.release_fixtures.commands import command_lines, played, set_the_stage
from tests.lab.release_fixtures.names import public_names
from tests.lab.release_fixtures.scenes import SCENES, Scene
from tests.lab.release_fixtures.topics import Cluster


def record(out: Path) -> None:
    """Write every fixture into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "names.json").write_text(json.dumps(public_names(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    with LocalBroker(properties={"log.roll.ms": "10000000000000"}) as broker:
        cluster = Cluster(broker.bootstrap_servers)
        for name, write in SCENES.items():
            print(name, file=sys.stderr)
            write(Scene(cluster, out / name, f"connect-share-{connect_share.__version__}-{name}"))
    _record_commands(out / "commands.json")


def _record_commands(file: Path) -> None:
    """Play on a broker of its own, as ``discover`` looks at all that there is."""
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        stage = Scene(Cluster(broker.bootstrap_servers), Path(folder), "played")
        set_the_stage(stage)
        lines = ",\n".join(json.dumps(each, sort_keys=True) for each in played(stage, command_lines()))
        file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
