"""Worker files for Java are read back as they were meant."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from connect_share.worker_config.properties import load_properties
from tests.lab.embedded.worker import write_properties

_names = st.text(min_size=1).filter(lambda text: text == text.strip() and text.isprintable())
_values = st.text()


@given(properties=st.dictionaries(_names, _values, max_size=5))
def test_what_is_written_is_read(tmp_path: Path, properties: dict[str, str]) -> None:
    path = write_properties(tmp_path / "worker.properties", properties)
    assert load_properties(path) == properties
    assert path.stat().st_mode & 0o777 == 0o600
