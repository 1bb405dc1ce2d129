"""Parts of Connect's herder for those who write one; see ``docs/herding.md``."""

from connect_share.herder.connector_validation import connector_config_errors
from connect_share.herder.deleted_statuses import deleted_statuses
from connect_share.herder.internal_request_signature import (
    SIGNATURE_ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    is_valid_signature,
    signature_headers,
)
from connect_share.herder.restart_plan import (
    PendingRestarts,
    RestartPlan,
    should_restart_connector,
    should_restart_task,
)
from connect_share.herder.session_key_rotation import SessionKeyRotation
from connect_share.herder.sink_offsets import alter_sink_offsets, reset_sink_offsets, sink_offsets
from connect_share.worker_config.override_policy import client_overrides, refused_overrides, sink_group_id

__all__ = [
    "SIGNATURE_ALGORITHM_HEADER",
    "SIGNATURE_HEADER",
    "PendingRestarts",
    "RestartPlan",
    "SessionKeyRotation",
    "alter_sink_offsets",
    "client_overrides",
    "connector_config_errors",
    "deleted_statuses",
    "is_valid_signature",
    "refused_overrides",
    "reset_sink_offsets",
    "should_restart_connector",
    "should_restart_task",
    "signature_headers",
    "sink_group_id",
    "sink_offsets",
]
