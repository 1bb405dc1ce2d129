"""File sources of a group: what was asked for over REST, and what of it REST and the topics do not show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.lab.compatibility.shared_topics import SharedTopics
from tests.lab.embedded.rest import ConnectRest, RestError, when_possible

LINE: Final = "a line of text\n"
WAIT_S: Final = 120.0


@dataclass
class Source:
    """The expected state of a connector.

    Attributes:
        lines: written to its file.
        due: of them, those that have to be in the topic: none that came while it was paused.
    """

    config: dict[str, str]
    topic: str
    state: str = "RUNNING"
    lines: int = 0
    due: int = 0


class Sources:
    """The connectors of a group, each with a file and a topic of its own."""

    def __init__(self, topics: SharedTopics, folder: Path, name: str) -> None:
        self.topics = topics
        self.model: dict[str, Source] = {}
        self._folder = folder
        self._name = name

    def create(self, rest: ConnectRest, name: str, lines: int = 3) -> None:
        """Create a connector with lines to copy."""
        topic = self.topics.create_data_topic(f"{self._name}-{name}")
        file = str(self._folder / f"{name}.txt")
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": file, "topic": topic}
        self.model[name] = Source({**config, "name": name}, topic)
        self.append(name, lines)
        self.change(rest, name)

    def change(self, rest: ConnectRest, name: str, **properties: str) -> None:
        """Put the configuration of a connector with changed properties; underscores in names are dots."""
        config = self.model[name].config
        config |= {key.replace("_", "."): value for key, value in properties.items()}
        when_possible(lambda: rest.put_config(name, config), WAIT_S)

    def append(self, name: str, lines: int = 1) -> None:
        """Write more lines to the file of a connector."""
        source = self.model[name]
        with (self._folder / f"{name}.txt").open("a", encoding="utf-8") as file:
            file.write(LINE * lines)
        source.lines += lines
        if source.state == "RUNNING":
            source.due = source.lines

    def pause(self, rest: ConnectRest, name: str) -> None:
        """Pause a connector."""
        when_possible(lambda: rest.pause(name), WAIT_S)
        self.model[name].state = "PAUSED"

    def resume(self, rest: ConnectRest, name: str) -> None:
        """Resume a connector."""
        when_possible(lambda: rest.resume(name), WAIT_S)
        source = self.model[name]
        source.state, source.due = "RUNNING", source.lines

    def delete(self, rest: ConnectRest, name: str) -> Source:
        """Delete a connector; return what was expected of it."""
        when_possible(lambda: rest.delete(name), WAIT_S, gone_is_fine=True)
        return self.model.pop(name)

    def rest_differences(self, rest: ConnectRest) -> list[str]:
        """Compare REST with what was asked for."""
        try:
            shown = rest.call("GET", "/connectors?expand=info&expand=status", timeout_s=20)
        except RestError as error:
            return [f"REST: {error}"]
        if shown.keys() != self.model.keys():
            return [f"connectors {sorted(shown)} instead of {sorted(self.model)}"]
        found = []
        for name, wanted in self.model.items():
            if shown[name]["info"]["config"] != wanted.config:
                found.append(f"{name} has another configuration")
            status = shown[name]["status"]
            states = [status["connector"]["state"], *self.task_states(status)]
            if states != [wanted.state] * 2:
                found.append(f"{name} is {states} instead of {wanted.state}")
        return found

    def task_states(self, status: dict[str, Any]) -> list[str]:
        """Return the states of a connector's tasks that count."""
        return [task["state"] for task in status["tasks"]]
