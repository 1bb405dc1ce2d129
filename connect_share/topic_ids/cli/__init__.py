"""The commands ``check topic-ids`` and ``repair topic-ids``, for the command line of ``connect-share``."""

from connect_share.topic_ids.cli.check import add_check_to
from connect_share.topic_ids.cli.repair import add_repair_to

__all__ = ["add_check_to", "add_repair_to"]
