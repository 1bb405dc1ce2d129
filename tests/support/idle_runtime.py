"""A runtime that is a member of its group, and runs nothing of what is assigned to it."""

from __future__ import annotations

from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime import Generation


class Idle:
    """A listener that does nothing."""

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        pass

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        pass
