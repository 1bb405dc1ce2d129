"""For authors of Connect-like runtimes: membership in a Connect group, and parts of Connect's herder.

Membership needs the extra ``runtime``. See ``docs/group-membership.md`` and ``docs/herding.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime.assignor import Change, balanced_assignment
from connect_share.runtime.connector_validation import connector_config_errors
from connect_share.runtime.internal_request_signature import (
    SIGNATURE_ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    is_valid_signature,
    signature_headers,
)
from connect_share.runtime.restart_plan import (
    PendingRestarts,
    RestartPlan,
    deleted_statuses,
    should_restart_connector,
    should_restart_task,
)
from connect_share.runtime.session_key_rotation import SessionKeyRotation
from connect_share.stores.alter_offsets import (
    ConsumerGroupsAdmin,
    alter_sink_offsets,
    reset_sink_offsets,
    sink_offsets,
)
from connect_share.stores.connector_offsets import connector_client_settings
from connect_share.worker_config.override_policy import client_overrides, refused_overrides, sink_group_id

if TYPE_CHECKING:
    from connect_share.runtime.async_member import AsyncConnectGroupMember, AsyncGroupListener
    from connect_share.runtime.member import (
        PYTHON_PROTOCOL,
        ConnectGroupMember,
        Generation,
        GroupListener,
        configured,
    )
    from connect_share.runtime.sole_member import SoleMember

__all__ = [
    "PYTHON_PROTOCOL",
    "SIGNATURE_ALGORITHM_HEADER",
    "SIGNATURE_HEADER",
    "AsyncConnectGroupMember",
    "AsyncGroupListener",
    "Change",
    "ConnectGroupMember",
    "ConnectorsAndTasks",
    "ConsumerGroupsAdmin",
    "Generation",
    "GroupListener",
    "PendingRestarts",
    "RestartPlan",
    "SessionKeyRotation",
    "SoleMember",
    "alter_sink_offsets",
    "balanced_assignment",
    "client_overrides",
    "configured",
    "connector_client_settings",
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


_MEMBERSHIP = {
    "AsyncConnectGroupMember": "async_member",
    "AsyncGroupListener": "async_member",
    "SoleMember": "sole_member",
    **dict.fromkeys(("PYTHON_PROTOCOL", "ConnectGroupMember", "Generation", "GroupListener", "configured"), "member"),
}


def __getattr__(name: str) -> Any:
    """Return a name of the membership, whose library is imported when it is first used; PEP 562."""
    if name not in _MEMBERSHIP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MEMBERSHIP[name]}"), name)
