"""What command-line programs share: printing, progress, questions, and running a command."""

from connect_share.console.interruption import InterruptionError
from connect_share.console.output import Output
from connect_share.console.program import EXIT_CODES, Parser, add_version, run_program, seconds
from connect_share.console.progress_line import ProgressLine
from connect_share.console.prompt import confirmed
from connect_share.console.text import ELLIPSIS, json_text, printable, table, text_width, truncated

__all__ = [
    "ELLIPSIS",
    "EXIT_CODES",
    "InterruptionError",
    "Output",
    "Parser",
    "ProgressLine",
    "add_version",
    "confirmed",
    "json_text",
    "printable",
    "run_program",
    "seconds",
    "table",
    "text_width",
    "truncated",
]
