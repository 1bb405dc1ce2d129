"""Folders of worker files: which one is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_share.cli.__main__ import PROGRAM
from connect_share.console.options import choose_worker_files
from connect_share.errors import ConfigError
from connect_share.worker_config.worker import choose_worker_file, files_in_folders, worker_files_in

TOPICS = "bootstrap.servers=b:9092\nconfig.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for group in ("billing", "orders"):
        (tmp_path / f"{group}.properties").write_text(f"group.id={group}\n{TOPICS}")
    (tmp_path / "sink.properties").write_text("name=sink\nconnector.class=X\n")
    (tmp_path / "deployment.yaml").write_text("kind: Deployment\n")
    (tmp_path / "notes.txt").write_text("group.id=none\n")
    return tmp_path


def test_only_worker_files_count(folder: Path) -> None:
    assert [path.name for path in worker_files_in(folder)] == ["billing.properties", "orders.properties"]


def test_the_group_says_which_file(folder: Path) -> None:
    assert choose_worker_file(folder, "orders", any_of_one_set=False).name == "orders.properties"


@pytest.mark.parametrize(
    "words", [["get", "tasks", "--group", "orders"], ["describe", "group", "orders"], ["delete", "group", "orders"]]
)
def test_the_group_of_a_command_line_says_which_file(folder: Path, words: list[str]) -> None:
    arguments = PROGRAM.parser(words[0]).parse_args([*words, "-w", str(folder)])
    choose_worker_files(arguments.parser, arguments)
    assert arguments.worker_config == folder / "orders.properties"


def test_any_file_will_do_where_all_have_the_same_topics(folder: Path) -> None:
    assert choose_worker_file(folder, None, any_of_one_set=True).parent == folder
    (folder / "third.properties").write_text(f"group.id=third\n{TOPICS}".replace("=c\n", "=other\n"))
    with pytest.raises(ConfigError, match=r"3 worker files: .*third\.properties \(third\); give one of them"):
        choose_worker_file(folder, None, any_of_one_set=True)


@pytest.mark.parametrize("group", [None, "unknown"])
def test_what_is_not_clear_is_refused(folder: Path, group: str | None) -> None:
    with pytest.raises(ConfigError, match=r"2 worker files: billing\.properties \(billing\)"):
        choose_worker_file(folder, group, any_of_one_set=False)


def test_a_folder_without_worker_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no worker file"):
        worker_files_in(tmp_path)


def test_destinations_are_found_by_group_and_not_by_order(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("shared")
    (shared / "1.properties").write_text(f"group.id=orders\n{TOPICS}")
    (shared / "2.properties").write_text(f"group.id=billing\n{TOPICS}")
    sources, destinations = files_in_folders([folder], [shared])
    assert [path.stem for path in sources] == ["billing", "orders"]
    assert [path.stem for path in destinations] == ["2", "1"]
    (shared / "2.properties").unlink()
    with pytest.raises(ConfigError, match="1 worker file"):
        files_in_folders([folder], [shared])
