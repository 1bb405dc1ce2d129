"""Checks of the lines of worker files for sealed sharing, of who may read the keys, and whether the files of a group agree.

Ids of keys may be in a finding; keys never are.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Final

from connect_share.checks.finding import Finding, Severity
from connect_share.checks.worker_file import CheckedFile, worker_finding
from connect_share.sealing import KEYS_PROPERTY, SealingMode
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.config_providers import references
from connect_share.worker_config.worker import SEALING_PROPERTY

_PROVIDERS: Final = "org.apache.kafka.common.config.provider."
_BY_OTHERS, _BY_GROUP = stat.S_IROTH | stat.S_IWOTH, stat.S_IRGRP | stat.S_IWGRP


def check_sealing(path: Path, properties: Mapping[str, str], config: WorkerConfig | None) -> Iterator[Finding]:
    """Check the sealing lines of one file; ``properties`` are as in the file, config providers not yet resolved."""
    text = properties.get(KEYS_PROPERTY, "").strip()
    if not text:
        return
    if _has_keys_itself(text):
        yield worker_finding(
            Severity.WARNING,
            KEYS_PROPERTY,
            f"{KEYS_PROPERTY} has the keys themselves: who reads the worker file reads and forges the group's records; keep "
            "them where only the worker reads, and refer to them by a config provider: ${file:/etc/connect/keys:keys}",
        )
    yield from _modes_of_files(path, text, properties)
    if config is None:
        return
    if config.sealing_mode is SealingMode.OFF:
        yield worker_finding(
            Severity.WARNING,
            SEALING_PROPERTY,
            f"{SEALING_PROPERTY} is off, but there are keys: nothing is sealed, and what is sealed is refused; remove both "
            "lines, or this one to seal",
        )
        return
    if config.sealing_mode is SealingMode.ACCEPT:
        yield worker_finding(
            Severity.NOTE,
            SEALING_PROPERTY,
            f"{SEALING_PROPERTY} is accept: plain records are believed, whoever wrote them. It is for the time of a change; "
            "when connect-share check sealing finds no plain value, remove the line on all workers",
        )
    yield worker_finding(
        Severity.NOTE,
        KEYS_PROPERTY,
        f"all workers of {config.group_id} need the same keys (in any order, but all have to know the first of each), "
        f"the same {SEALING_PROPERTY}, and the jar of {version('connect-share')} or later; stop all of them to change from "
        "plain to sealed, never one after the other",
    )


def _has_keys_itself(text: str) -> bool:
    """Return whether something but references to config providers is there."""
    for one in reversed(list(references(text))):
        text = text[: one.start] + text[one.end :]
    return bool(text.strip(", \t\r\n\f"))


def _modes_of_files(path: Path, text: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    """Check who may read the files that hold the keys."""
    for file in dict.fromkeys(_files_with_keys(path, text, properties)):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue  # a worker that cannot read its keys is another finding
        if mode & (_BY_OTHERS | _BY_GROUP):
            by, severity = ("its group (fine if only the worker is in it)", Severity.NOTE)
            if mode & _BY_OTHERS:
                by, severity = "everybody on this machine", Severity.WARNING
            yield worker_finding(
                severity,
                KEYS_PROPERTY,
                f"{KEYS_PROPERTY}: {file}, which holds keys, can be read or changed by {by}: its mode is {mode:04o}; "
                "give it to the worker's user, with mode 0600",
            )


def _files_with_keys(path: Path, text: str, properties: Mapping[str, str]) -> Iterator[Path]:
    if _has_keys_itself(text):
        yield path
    for one in references(text):
        kind = properties.get(f"config.providers.{one.provider}.class", "").strip()
        if kind == f"{_PROVIDERS}FileConfigProvider":
            yield Path(one.path)
        elif kind == f"{_PROVIDERS}DirectoryConfigProvider":
            yield Path(one.path) / one.key


def compare_files(files: Sequence[tuple[Path, CheckedFile]]) -> Iterator[Finding]:
    """Compare the files of workers of one group, each with each."""
    for (path, checked), (other_path, other) in combinations(files, 2):
        one, two = checked.config, other.config
        if one is None or two is None or one.group_id != two.group_id:
            continue
        wrong = {finding.property_name for each in (checked, other) for finding in each.findings}
        if wrong & {"group.id", KEYS_PROPERTY, SEALING_PROPERTY}:
            yield worker_finding(
                Severity.NOTE,
                KEYS_PROPERTY,
                f"{KEYS_PROPERTY} was not compared in {path} and {other_path}: see what was found in each",
            )
        else:
            for severity, name, what in _differences(one, two):
                text = f"{name} {what}: {path} and {other_path}, both of group {one.group_id}"
                yield worker_finding(severity, name, text)


def _differences(one: WorkerConfig, two: WorkerConfig) -> Iterator[tuple[Severity, str, str]]:
    """Yield how the sealing of two workers of one group differs: severity, property and the rest of a sentence."""
    keys, others = one.keys_in_use, two.keys_in_use
    if (keys is None) != (others is None):
        yield Severity.ERROR, KEYS_PROPERTY, "is used by one only, and the other sees nothing of what it writes"
    if keys is None or others is None:
        return
    if one.sealing_mode is not two.sealing_mode:
        yield Severity.ERROR, SEALING_PROPERTY, "is not the same, so one believes records that the other refuses"
    mine, theirs = dict(keys.items()), dict(others.items())
    clash = sorted(number for number in mine.keys() & theirs.keys() if mine[number] != theirs[number])
    if clash:
        yield Severity.ERROR, KEYS_PROPERTY, f"has different keys under id {', '.join(map(str, clash))}"
    elif keys.sealing_id not in theirs or others.sealing_id not in mine:
        yield Severity.ERROR, KEYS_PROPERTY, "seals in one with a key that the other does not have"
    elif mine != theirs:
        yield Severity.WARNING, KEYS_PROPERTY, "is not the same; right only while keys are being changed"
