"""Profile the internal topics with Spark: what is in them by group and kind, predicted starts, and advice on settings.

One task counts one partition: only a reader from its beginning knows which records are superseded. Counts and eight bytes
for each key come back, never a record.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from connect_share.checks.startup import startup_members
from connect_share.console.options import add_groups, add_worker_file, groups_of, output_file
from connect_share.console.output import Output, ProgressLine, Result, json_text
from connect_share.contents.cost_model import load_model
from connect_share.contents.profile import PartitionProfile
from connect_share.contents.startup import CountJob, CountPlan, not_shown, profile_lines, startup_profile
from connect_share.contents.usage import DEFAULT_WINDOW_S, measured_usage, usage_members
from connect_share.files import write_private_file, writing
from connect_share.model.records import TopicType
from connect_share.worker_config import TopicSet
from spark_jobs import command_line
from spark_jobs.session import spark_session
from spark_jobs.tasks import run_as_tasks

JOB = "profile_topics"


def _body(options: argparse.Namespace) -> int:
    out = Output(JOB, "json" if options.usage else options.output, program=JOB)
    fitted = load_model(options.model)
    groups = groups_of(options.groups)
    plan = CountPlan.of(TopicSet.from_worker_file(options.worker_config))
    out.note(*plan.notes)
    jobs = [job for topic_type in TopicType for job in plan.jobs(topic_type, one_for_each_partition=True)]
    with ProgressLine() as progress, spark_session("connect-share profile_topics") as spark:
        counted = run_as_tasks(spark, jobs, CountJob.run, progress=progress, what="counting partitions")
    partitions: dict[TopicType, list[PartitionProfile]] = {topic_type: [] for topic_type in TopicType}
    for job, profiles in zip(jobs, counted, strict=True):
        partitions[job.topic_type] += profiles
    profiled = {topic_type: plan.profiled(topic_type, profiles) for topic_type, profiles in partitions.items()}
    if options.usage:
        found = measured_usage(plan, profiled, fitted.model, note=out.note)
        result = Result({"window_seconds": DEFAULT_WINDOW_S, **usage_members(found)})
    else:
        start = startup_profile(profiled, fitted, now_ms=plan.now_ms, groups=groups)
        notes = [] if out.is_json else not_shown(start)
        result = Result(startup_members(start, options.worker_config), profile_lines(start), notes=notes)
    if options.result is not None:
        with writing(options.result):
            options.result.parent.mkdir(parents=True, exist_ok=True)
            write_private_file(options.result, f"{json_text(JOB, result.members)}\n".encode(), mode=0o644)
    return out.show(result)


def main(argv: Sequence[str]) -> int:
    """Print counts, predictions and advice. 0 done, findings or not, 1 failed, 2 usage."""
    arguments = command_line.parser(JOB, __doc__ or "")
    add_worker_file(arguments, "a Java worker's file")
    add_groups(arguments, "show only ")
    arguments.add_argument(
        "--model", metavar="FILE", type=Path, help="result of spark_jobs.benchmark_startup to predict by"
    )
    arguments.add_argument(
        "--usage",
        action="store_true",
        help="instead: what each group takes and costs, as connect-share usage --output json",
    )
    arguments.refuse("--group", beside="--usage")
    text = "write the result as JSON to this file as well"
    arguments.add_argument("--result", metavar="FILE", type=partial(output_file, makes_folder=True), help=text)
    command_line.add_timeout(arguments)
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
