"""Membership in a Connect group for runtimes of more than one process; needs the extra ``membership``."""

from connect_share.group_membership.assignor import Change, balanced_assignment
from connect_share.group_membership.member import (
    PYTHON_PROTOCOL,
    ConnectGroupMember,
    Generation,
    GroupListener,
    configured,
)

__all__ = [
    "PYTHON_PROTOCOL",
    "Change",
    "ConnectGroupMember",
    "Generation",
    "GroupListener",
    "balanced_assignment",
    "configured",
]
