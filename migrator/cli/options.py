"""What several commands have: the plan and how it is shown, engines, evidence, and what to do after Ctrl-C."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from connect_share.console.options import Parser, StrictParser, output_folder
from connect_share.console.program import NOTHING_CHANGED
from connect_share.files import Progress
from connect_share.model.records import TopicType
from migrator.copy.copy_job import LOCAL_ENGINE, SPARK_ENGINE
from migrator.plan import MigrationPlan, SourceCluster, named_connectors
from migrator.run import plan_command


def engine_of(arguments: argparse.Namespace, progress: Progress, job: str, engine: str) -> Any:
    """Return what ``--engine`` names: ``None`` for this process, or the engine of a Spark job.

    Spark is an extra, and imported only when it is asked for.
    """
    if arguments.engine == LOCAL_ENGINE:
        return None
    return getattr(importlib.import_module(f"spark_jobs.{job}"), engine)(progress)


def an_engine(text: str) -> str:
    """Return an engine that can be used here: the type of an option; ``UsageError``: it is not installed."""
    if text == SPARK_ENGINE:
        importlib.import_module("spark_jobs.session").require_spark()
    return text


def add_plan(parser: StrictParser, *, engine: bool = False) -> None:
    """Add the plan, ``--engine`` and ``--evidence``."""
    parser.add_argument("plan", metavar="PLAN", type=Path, help="the file that plan has written")
    if engine:
        parser.add_argument("--engine", type=an_engine, choices=(LOCAL_ENGINE, SPARK_ENGINE), default=LOCAL_ENGINE)
    parser.add_argument(
        "--evidence",
        metavar="DIR",
        type=partial(output_folder, makes=True),
        help="folder for the evidence; default: <plan>.evidence beside the plan",
    )


def add_files(parser: Parser, *, destination_required: bool = True) -> None:
    """Add the worker files of both sides."""
    add = partial(parser.add_argument, metavar="FILE", type=Path, nargs="+", action="extend")
    add(
        "-w",
        "--source-worker-config",
        "--worker-config",
        dest="sources",
        required=True,
        help="worker file of a cluster that is moved, or a folder of them; may be repeated",
    )
    add(
        "--to-worker-config",
        "--destination-worker-config",
        dest="destinations",
        default=None if destination_required else [],
        required=destination_required,
        help="worker file of where it goes: one for all sources, one for each in the same order, or a folder with one for "
        "each group.id",
    )


def continues(arguments: argparse.Namespace) -> str:
    """Say after Ctrl-C that the same command goes on."""
    if arguments.dry_run:
        return NOTHING_CHANGED
    return f"what was done so far stays; {plan_command(arguments.verb, arguments.plan)} continues"


def plan_lines(plan: MigrationPlan) -> Iterator[str]:
    """Yield a plan as text: what goes where, what stays behind, warnings, steps."""
    yield f"run {plan.run_id}, mode {plan.mode}"
    for source in plan.sources:
        whose = f"{source.connectors} connector{'' if source.connectors == 1 else 's'}"
        if source.only_connectors is not None:
            whose = f"only {named_connectors(source.only_connectors)}"
        keys = "gets plain keys" if source.cluster_group_id is None else f"becomes {source.cluster_group_id}"
        yield from ("", f"{source.group_id} {keys} ({whose}), {source.worker_config_file}")
        yield from _sealing_lines(source)
        for topic_type in TopicType:
            topic, shared = source.topics[topic_type], plan.destination.topics[topic_type]
            counts = topic.counts
            yield (
                f"  {topic_type.value:6}  {topic.topic} -> {shared.topic}"
                f"{' (to be created)' if shared.create else ''}: {counts.to_write:,} of {counts.read:,} records, "
                f"{counts.bytes_to_write:,} bytes, {topic.isolation.value}"
            )
            yield from (f"          left behind: {n:,} {reason.value}" for reason, n in counts.skipped.items())
    if plan.warnings:
        yield from ("", *(f"warning: {warning}" for warning in plan.warnings))
    yield ""
    for number, step in enumerate(plan.steps, 1):
        yield f"{number}. {'you' if step.who == 'operator' else 'this tool'}: {step.what}"


def _sealing_lines(source: SourceCluster) -> list[str]:
    """Return what happens to values if one of both sides is sealed."""
    if source.sealed_as_is:
        return ["  values  sealed, copied as they are"]
    sides = (source.sealing, source.destination_sealing)
    shown = ["plain" if each is None else f"sealed with key {each.key_ids[0]}" for each in sides]
    return [] if sides == (None, None) else [f"  values  {' -> '.join(shown)}"]
