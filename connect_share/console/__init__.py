"""The common parts of command-line programs: options, printing, progress, questions, and running a command."""

from connect_share.console.completion import add_completion
from connect_share.console.options import (
    DEFAULT_TIMEOUT_S,
    EXIT_CODES,
    PLAIN,
    Group,
    HelpFormatter,
    Parser,
    add_client_settings,
    add_examples,
    add_output,
    add_version,
    client_settings_of,
    group_order,
    groups_of,
    named_groups,
    seconds,
    shown_group,
)
from connect_share.console.output import Output
from connect_share.console.program import InterruptionError, logs_on_stderr, run_program
from connect_share.console.progress_line import ProgressLine
from connect_share.console.prompt import NEEDS_YES, confirmed, show_preview
from connect_share.console.text import ELLIPSIS, json_text, plural, printable, table, text_width, truncated
