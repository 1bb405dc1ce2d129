"""The example of the README runs as it is written, shared and plain."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from connect_share.worker_config import SHARING_PROPERTY
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker

README = Path(__file__).parents[2] / "README.md"


def _example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.mark.parametrize("sharing", ["enabled", "disabled"])
def test_the_embedding_example(broker: TestBroker, unique: str, tmp_path: Path, sharing: str) -> None:
    code = _example()
    assert len(code.strip().splitlines()) <= 12
    properties = {**worker_properties(broker.bootstrap_servers, unique), SHARING_PROPERTY: sharing}
    write_properties(tmp_path / "worker.properties", properties)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['my.conn'] {'position': 42}\n"
    assert done.stderr == ""


def test_every_file_the_readme_points_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target
