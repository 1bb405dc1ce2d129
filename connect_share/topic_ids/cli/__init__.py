"""The commands ``check topic-ids`` and ``repair topic-ids``, for the command line of ``connect-share``."""

from connect_share.topic_ids.cli.options import add_check_to, add_repair_to

__all__ = ["add_check_to", "add_repair_to"]
