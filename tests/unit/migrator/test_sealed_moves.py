"""Moves of sealed groups are refused before a broker is asked, and so are plain copies that nobody would believe."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_share.errors import ConfigError
from connect_share.sealing import KEYS_PROPERTY
from migrator.planner.moves import pair
from tests.support.sealed import key_text

MODE = KEYS_PROPERTY.removesuffix(".keys")


def worker_file(folder: Path, name: str, *, sharing: str = "enabled", **sealing: str) -> Path:
    lines = {
        "bootstrap.servers": "a:9092",
        "group.id": name,
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
        "connect.management.topic.sharing.support": sharing,
        **({KEYS_PROPERTY: sealing["keys"]} if "keys" in sealing else {}),
        **({MODE: sealing["mode"]} if "mode" in sealing else {}),
    }
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


@pytest.mark.parametrize("mode", ["required", "accept"])
def test_a_sealed_source_is_refused(tmp_path: Path, mode: str) -> None:
    sealed = worker_file(tmp_path, "sealed", keys=key_text(7), mode=mode)
    for other in (worker_file(tmp_path, "plain", sharing="disabled"), worker_file(tmp_path, "o", keys=key_text(7))):
        with pytest.raises(ConfigError, match=r"sealed.properties: .*cannot be moved yet") as caught:
            pair([sealed], [other])
        assert caught.value.property_name == KEYS_PROPERTY


def test_a_destination_that_requires_seals_is_refused_and_one_that_accepts_is_not(tmp_path: Path) -> None:
    plain = worker_file(tmp_path, "plain", sharing="disabled")
    with pytest.raises(ConfigError, match=r"b.properties: .*set .*encryption=accept for the move"):
        pair([plain], [worker_file(tmp_path, "b", keys=key_text(7))])
    for sealing in ({"mode": "accept"}, {"mode": "off"}):
        [move] = pair([plain], [worker_file(tmp_path, "b", keys=key_text(7), **sealing)])
        assert move.group == "b"
