"""``worker-jar``: hands out the jar for Java workers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from connect_share.checks.jar import compared
from connect_share.checks.worker_file import EXACTLY_ONCE, worker_lines
from connect_share.console.output import Output, Result
from connect_share.console.program import Command
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.jar.jar_file import HandedOut, JarFile, find_jars, folder_jars, hand_out, own_jar


def _worker_jar(arguments: argparse.Namespace, out: Output) -> Result:
    if arguments.to is None:
        jar = own_jar()
        return Result(_members(jar), [str(jar.path)])
    done = hand_out(arguments.to)
    others = [jar for jar in find_jars(folder_jars(arguments.to)) if jar.path.resolve() != done.jar.path.resolve()]
    for other in others:
        out.note(f"{other.path} has the interceptor too, and one hides the other: remove it")
    replaced = None if done.replaced is None else {"version": done.replaced.version, "sha256": done.replaced.sha256}
    lines, more = worker_lines(exactly_once=False), worker_lines(exactly_once=True)
    return Result(
        {**_members(done.jar), "written": done.written, "replaced": replaced},
        [
            f"{done.jar.path}: {_outcome(done)}",
            "",
            "add to the worker file:",
            *lines,
            "",
            f"with {EXACTLY_ONCE}=enabled or preparing also:",
            *more[len(lines) :],
        ],
    )


def _outcome(done: HandedOut) -> str:
    if not done.written:
        return f"version {done.jar.version} is there already, nothing was written"
    if done.replaced is None:
        return f"version {done.jar.version} written"
    return f"version {done.jar.version} written, in place of {compared(done.replaced, done.jar)}"


def _members(jar: JarFile) -> dict[str, Any]:
    return {
        "path": str(jar.path),
        "sha256": jar.sha256,
        "version": jar.version,
        "class": INTERCEPTOR_CLASS,
        "written": False,
        "replaced": None,
        "lines": list(worker_lines(exactly_once=False)),
        "lines_exactly_once": list(worker_lines(exactly_once=True)),
    }


COMMANDS: Final = [
    Command(
        "worker-jar",
        _worker_jar,
        about="Print where the jar for unmodified Java workers (2.8 to 4.4) is, or copy it to where they find it.",
        examples=["connect-share worker-jar", "connect-share worker-jar --to /opt/kafka/libs"],
        options=lambda parser: parser.add_argument(
            "--to", metavar="DIR", type=Path, help="copy the jar into this folder, such as Kafka's libs"
        ),
        asks_cluster=False,
    )
]
