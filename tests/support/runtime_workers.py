"""What tests of members of a Connect group need, and those of the example runtime."""

from __future__ import annotations

from pathlib import Path

from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime import Generation

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


class Idle:
    """A listener that does nothing."""

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        pass

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        pass
