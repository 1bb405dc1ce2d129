"""What a killed process leaves in the cache folder is removed by the next one, what a living one uses is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connect_share.jar.cache import cache_folder, run_folder

_OTHER = """
import time
from connect_share.jar.cache import run_folder
folder = run_folder("other")
(folder / "data").write_text("x")
print(folder, flush=True)
time.sleep(300)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_the_cache_follows_the_users_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "connect-share"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "connect-share"


def test_folders_of_the_living_stay_and_those_of_the_killed_go() -> None:
    mine = run_folder("mine")
    with subprocess.Popen([sys.executable, "-c", _OTHER], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        second = run_folder("mine")
        assert mine.exists()
        assert second != mine
        assert (theirs / "data").exists()
        other.kill()
    run_folder("mine")
    assert mine.exists()
    assert second.exists()
    assert not theirs.exists()


def test_a_folder_that_is_being_removed_is_left_to_who_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock file is gone when it is to be looked at: making it anew would fail the removal, as of a folder not empty."""
    theirs = run_folder("theirs").parent / "other-1"
    theirs.mkdir()
    (theirs / "data").write_text("x")
    listed = Path.glob

    def glob(folder: Path, pattern: str) -> Iterator[Path]:
        yield from listed(folder, pattern)
        yield theirs / ".owner"

    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", glob)
        run_folder("mine")
    assert [path.name for path in theirs.iterdir()] == ["data"]


def test_threads_make_and_remove_folders_side_by_side() -> None:
    def make_and_remove(_: int) -> None:
        shutil.rmtree(run_folder("threaded"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make_and_remove, range(800)))
    assert run_folder("last").exists()
