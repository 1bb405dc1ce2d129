"""The frame of command-line programs: how a command is declared and run, its options, what it prints and asks."""

from connect_share.console.options import (
    DEFAULT_TIMEOUT_S,
    PLAIN,
    Container,
    Group,
    Parser,
    add_client_settings,
    add_worker_file,
    client_settings_of,
    group_order,
    groups_of,
    named_groups,
    number,
    seconds,
    shown_group,
    worker_file,
)
from connect_share.console.output import (
    ELLIPSIS,
    Output,
    Result,
    Table,
    json_text,
    plural,
    printable,
    table,
    text_width,
    truncated,
)
from connect_share.console.program import (
    NEEDS_YES,
    NOTHING_CHANGED,
    STAYS,
    Command,
    InterruptionError,
    Preview,
    Program,
    Steps,
    Verb,
    confirmed,
    run_command,
    said_left_out,
    stopped_by,
)
from connect_share.console.progress_line import ProgressLine
