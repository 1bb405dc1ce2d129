"""Sources of Java workers: each reads a file, and nothing of it may come twice or never."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from connect_share import KeyRing, TopicType, replay_offsets
from connect_share.worker_config import Isolation
from tests.support.java_groups import SharedTopics, file_source
from tests.support.waiting import await_that


@dataclass(frozen=True)
class FileSources:
    """Source connectors of one group; all lines go to one topic."""

    topics: SharedTopics
    group: str
    folder: Path

    def create_topic(self) -> None:
        self.topics.create_data_topic("data")

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def config(self, name: str, **more: str) -> dict[str, str]:
        """A configuration as REST returns it; underscores in names are dots."""
        named = {key.replace("_", "."): value for key, value in more.items()}
        return file_source(self.file(name), f"{self.topics.prefix}-data", name=name, **named)

    def append(self, name: str, *lines: str) -> None:
        """Add fewer than 2,000 lines at once: what a batch has left in the connector's buffer waits for the next line."""
        with self.file(name).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def await_read(self, names: Iterable[str], keys: KeyRing | None) -> None:
        """Wait until the sources have read their files, by what is on the topic: REST tells offsets from 3.5 on only."""
        wanted = {name: {"position": self.file(name).stat().st_size} for name in names}

        def offsets() -> object:
            topic = self.topics.topic(TopicType.OFFSET)
            records = self.topics.records(topic, isolation=Isolation.READ_COMMITTED)
            state = replay_offsets(records, self.group, keys=keys)
            return {name: state.offset(name, {"filename": str(self.file(name))}) for name in wanted}

        await_that(offsets, lambda found: found == wanted, what=f"read, to {wanted}", timeout_s=120)

    def lines(self, isolation: Isolation = Isolation.READ_COMMITTED) -> list[str]:
        """What has come of all files, in order."""
        found = self.topics.records(f"{self.topics.prefix}-data", isolation=isolation)
        return [(record.value or b"").decode() for record in found]
