"""``worker-jar``: hands out the jar for Java workers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from connect_share.checks.jar import compared
from connect_share.checks.worker_file import EXACTLY_ONCE, worker_lines
from connect_share.cli.options import Nouns
from connect_share.console import Output, add_examples, add_output
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.jar.jar_file import HandedOut, JarFile, find_jars, folder_jars, hand_out, own_jar


def add_to(verbs: Nouns) -> None:
    """Add ``worker-jar``, which is a verb without nouns."""
    parser = verbs.add_parser(
        "worker-jar",
        help="show or copy the jar that gives topic sharing to Java workers",
        description="Print where the jar for unmodified Java workers (2.8 to 4.4) is, or copy it to where they find it.",
    )
    add_examples(
        parser,
        "connect-share worker-jar",
        "connect-share worker-jar --to /opt/kafka/libs",
    )
    parser.add_argument("--to", metavar="DIR", type=Path, help="copy the jar into this folder, such as Kafka's libs")
    add_output(parser, asks_cluster=False)
    parser.set_defaults(noun="", run=worker_jar)


def worker_jar(arguments: argparse.Namespace, out: Output) -> int:
    """Print the path of the jar, or copy it into a folder."""
    if arguments.to is None:
        jar = own_jar()
        if out.is_json:
            out.json(_members(jar))
        else:
            out.lines(str(jar.path))
        return 0
    done = hand_out(arguments.to)
    others = [jar for jar in find_jars(folder_jars(arguments.to)) if jar.path.resolve() != done.jar.path.resolve()]
    for other in others:
        out.note(f"{other.path} has the interceptor too, and one hides the other: remove it")
    if out.is_json:
        replaced = done.replaced
        out.json(
            {
                **_members(done.jar),
                "written": done.written,
                "replaced": None if replaced is None else {"version": replaced.version, "sha256": replaced.sha256},
            }
        )
        return 0
    lines, more = worker_lines(exactly_once=False), worker_lines(exactly_once=True)
    out.lines(
        f"{done.jar.path}: {_outcome(done)}",
        "",
        "add to the worker file:",
        *lines,
        "",
        f"with {EXACTLY_ONCE}=enabled or preparing also:",
        *more[len(lines) :],
    )
    return 0


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
