"""The state of a group as plain JSON."""

from __future__ import annotations

import json
from typing import Any

from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.status import StatusSnapshot


def plain_state(config: ClusterConfigState, status: StatusSnapshot, offsets: OffsetSnapshot) -> dict[str, Any]:
    """Return connectors with their tasks, statuses and offsets by connector."""
    return {
        "connectors": {
            name: {
                "config": config.connector_config(name),
                "tasks": [config.task_config(task) for task in config.tasks(name)],
                "target": (config.target_state(name) or TargetState.STARTED).name,
            }
            for name in sorted(config.connectors())
        },
        "statuses": {
            name: [
                [each.state.name, each.worker_id, each.generation, each.trace]
                for each in (status.connector_status(name), *status.task_statuses(name))
                if each is not None
            ]
            for name in sorted(status.connectors())
        },
        "offsets": {
            name: sorted(([each, offsets.offset(name, each)] for each in offsets.partitions(name)), key=json.dumps)
            for name in sorted(offsets.connectors())
        },
    }
