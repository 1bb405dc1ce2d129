"""The commands ``check topic-ids`` and ``repair topic-ids``, for the command line of ``connect-share``."""

from typing import Final

from connect_share.topic_ids.cli.check import CHECK
from connect_share.topic_ids.cli.repair import REPAIR

COMMANDS: Final = [CHECK, REPAIR]
