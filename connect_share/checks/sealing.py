"""``check sealing``: what of sealed groups is plain or refused, and which keys are in use; sealing lines of worker files.

Ids of keys may be in a finding; keys never are.
"""

from __future__ import annotations

import argparse
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, errors_first, findings_result, of_group
from connect_share.checks.worker_file import CheckedFile, worker_finding
from connect_share.console.options import Group, Parser, add_topics, named_groups, topic_set_of
from connect_share.console.output import Output, Result, plural
from connect_share.contents.groups import Contents, TopicContents, read_topics
from connect_share.contents.seals import Newest, SealCount, SealKind, ids_text
from connect_share.errors import command_line
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY, SEALING_PROPERTY, Refusal, SealingMode
from connect_share.sealing.seals import ROTATE_AFTER
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, WorkerConfig
from connect_share.worker_config.config_providers import PACKAGE, references

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
            f"{SEALING_PROPERTY} is accept: plain records are accepted, whoever wrote them. It is for the time of a change; "
            f"when {command_line('connect-share', 'check', 'sealing', '-w', path)} finds no plain value, remove the line "
            "on all workers",
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
        if kind == f"{PACKAGE}FileConfigProvider":
            yield Path(one.path)
        elif kind == f"{PACKAGE}DirectoryConfigProvider":
            yield Path(one.path) / one.key


def compare_files(files: Sequence[tuple[Path, CheckedFile]]) -> Iterator[Finding]:
    """Compare the files of workers of one group, each with each."""
    for (path, checked), (other_path, other) in combinations(files, 2):
        one, two = checked.config, other.config
        if one is None or two is None:
            continue
        is_one_cluster = one.bootstrap_servers == two.bootstrap_servers
        names = [name for kind, name in TOPIC_PROPERTIES.items() if one.topic(kind) != two.topic(kind)]
        both = f"{path} and {other_path}"
        if one.group_id != two.group_id:
            if is_one_cluster and not names and not (checked.sharing_enabled and other.sharing_enabled):
                text = f"{both} have one set of topics and two ids, and sharing is not on in both: each runs everything"
                yield worker_finding(Severity.ERROR, SHARING_PROPERTY, text)
            continue
        for name in names if is_one_cluster else ():
            text = f"{name} is not the same in {both}, both of group {one.group_id}: give one another group.id"
            yield worker_finding(Severity.ERROR, name, text)
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
        yield Severity.ERROR, SEALING_PROPERTY, "is not the same, so one accepts records that the other refuses"
    mine, theirs = dict(keys.items()), dict(others.items())
    clash = sorted(number for number in mine.keys() & theirs.keys() if mine[number] != theirs[number])
    if clash:
        yield Severity.ERROR, KEYS_PROPERTY, f"has different keys under id {', '.join(map(str, clash))}"
    elif keys.sealing_id not in theirs or others.sealing_id not in mine:
        yield Severity.ERROR, KEYS_PROPERTY, "seals in one with a key that the other does not have"
    elif mine != theirs:
        yield Severity.WARNING, KEYS_PROPERTY, "is not the same; right only while keys are being changed"


_SHOWN_PLACES: Final = 3
_NOT_OWN: Final = (Refusal.FORGED, Refusal.MALFORMED, Refusal.REPLAYED)


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    parser.add_argument(
        "--all-groups-sealed",
        dest="all_groups",
        action="store_true",
        help="every group on these topics has to be sealed: a plain one is an error",
    )


def _check_sealing(arguments: argparse.Namespace, out: Output) -> Result:
    topic_set = topic_set_of(arguments)
    worker, group = topic_set.worker, None if topic_set.worker is None else topic_set.worker.cluster_group_id
    only = None if group is None or arguments.all_groups else (group,)
    contents = read_topics(topic_set, list(topic_set.topics), groups=only)
    for topic in contents.topics.values():
        out.note(*topic.notes)
    findings = find(contents, worker, arguments.worker_config, all_groups_sealed=arguments.all_groups)
    return findings_result(findings, _names(contents), {"values_at_most": _values_at_most(contents)})


def find(
    contents: Contents,
    worker: WorkerConfig | None,
    file: Path | None,
    *,
    all_groups_sealed: bool,
    only: Collection[Group] | None = None,
) -> list[Finding]:
    """Return what is found in the topics, errors first; ``file`` is that of the worker, ``only`` these groups are wanted."""
    findings: list[Finding] = []
    group = None if worker is None else worker.cluster_group_id
    if worker is not None and group is not None and (only is None or group in only):
        findings += of_group(group, _of_own_group(contents, group, worker, str(file)))
    others = [each for each in contents.groups() if group is None or each != group]
    findings += _plain_beside_sealed(contents, [each for each in others if only is None or each in only])
    if all_groups_sealed:
        findings += _plain_groups(contents)
    if sealed_groups(contents) and (at_most := _values_at_most(contents)) >= ROTATE_AFTER:
        findings += [
            Finding(
                "sealing-many-values",
                Severity.WARNING,
                _names(contents),
                f"one key may have sealed up to {at_most:,} values: so many records of all groups were ever written there",
                "a key may seal 4,294,967,296 values at most: the IVs are random, and two that are the same break it",
                "change the key of each group that writes much; what the topics tell does not change by that",
            )
        ]
    return errors_first(findings)


def _values_at_most(contents: Contents) -> int:
    """Return how many records were ever written: no key has sealed more values there."""
    return sum(topic.end for topic in contents.topics.values())


def sealed_groups(contents: Contents) -> set[Group]:
    """Return the groups that have sealed values."""
    return {group for topic in contents.topics.values() for group, count in topic.seals.items() if count.any_sealed}


def _names(contents: Contents) -> str:
    return ", ".join(topic.topic for topic in contents.topics.values())


def _of_own_group(contents: Contents, group: Group, worker: WorkerConfig, file: str) -> Iterator[Finding]:
    """Check the group whose worker file is known, as its workers see it."""
    for topic in contents.topics.values():
        count = topic.seals.get(group)
        if count is None:
            continue
        if worker.sealing_mode is not SealingMode.OFF:
            yield from _plain_values(topic, count, worker.sealing_mode, file)
        yield from _refused_values(topic, count, file)
        yield from _unknown_keys(topic, count, worker, file)
    keys = worker.keys_in_use
    if keys is None or len(contents.topics) < len(TopicType):
        return
    counts = [topic.seals[group] for topic in contents.topics.values() if group in topic.seals]
    used = {number for count in counts for number in (*count.sealed.counts, *count.refused_ids.counts)}
    unused = [str(number) for number in keys.ids[1:] if number not in used]
    if unused:
        yield Finding(
            "sealing-unused-keys",
            Severity.NOTE,
            file,
            f"no record of {group} is sealed with key {', '.join(unused)}",
            f"{KEYS_PROPERTY} still has it, and nothing on these topics needs it",
            "remove it from all workers, unless it is about to become the first, or backups and mirrors are to be opened",
        )


def _plain_values(topic: TopicContents, count: SealCount, mode: SealingMode, file: str) -> Iterator[Finding]:
    newest = count.newest_of(SealKind.PLAIN)
    replaced = count.plain - len(newest)
    if newest:
        required = mode is SealingMode.REQUIRED
        yield Finding(
            "sealing-plain-values",
            Severity.ERROR if required else Severity.WARNING,
            topic.topic,
            f"the newest record of {plural(len(newest), 'key')} is plain, or a tombstone: {_places(topic, newest)}",
            "workers refuse it in this mode, required, and the cleaner removes what is under it"
            if required
            else "workers accept it in this mode, accept, whoever wrote it; in required they refuse it",
            "if the group wrote it before it was sealed: stop all workers, set accept and seal it; otherwise find the writer "
            "and remove its right",
            command_line("connect-share-migrate", "reseal", "-w", file),
        )
    if replaced:
        yield Finding(
            "sealing-plain-replaced",
            Severity.NOTE,
            topic.topic,
            f"{plural(replaced, 'plain record')} that newer ones have replaced",
            "who may read the topic reads what is in them until the cleaner takes them; no worker needs them",
            "wait for the cleaner, and change the secrets that are in them",
        )


def _again(file: str) -> str:
    return f"write the values of those keys again ({command_line('connect-share-migrate', 'reseal', '-w', file)})"


def _refused_values(topic: TopicContents, count: SealCount, file: str) -> Iterator[Finding]:
    reasons = {reason: count.reasons[reason] for reason in _NOT_OWN if count.reasons[reason]}
    if reasons:
        newest = count.newest_of(SealKind.REFUSED)
        yield Finding(
            "sealing-refused-values",
            Severity.ERROR if newest else Severity.WARNING,
            topic.topic,
            ", ".join(f"{plural(number, 'record')} refused: {reason.value}" for reason, number in reasons.items())
            + (f"; the newest of {plural(len(newest), 'key')}: {_places(topic, newest)}" if newest else ""),
            "another writer uses keys of the group, and the cleaner removes the good records under it",
            f"find the writer and remove its right, then {_again(file)}, and remove what is left of the others",
            command_line("connect-share", "repair", "refused", "-w", file),
        )


def _unknown_keys(topic: TopicContents, count: SealCount, worker: WorkerConfig, file: str) -> Iterator[Finding]:
    off = worker.sealing_mode is SealingMode.OFF
    unknown, newest = count.refused_ids.without(count.known), count.newest_of(SealKind.UNKNOWN)
    if unknown.counts:
        yield Finding(
            "sealing-unknown-keys",
            Severity.ERROR if newest else Severity.WARNING,
            topic.topic,
            f"records that claim to be sealed with keys {file} does not {'use' if off else 'have'}: "
            f"{', '.join(ids_text(unknown))}"
            + (f"; the newest of {plural(len(newest), 'key')}: {_places(topic, newest)}" if newest else ""),
            "workers without keys refuse them"
            if off
            else "workers refuse them, and the cleaner removes what lies under them; a worker that lacks a key of its group "
            "does not start",
            f"if it is a key of the group, put it behind the others of {KEYS_PROPERTY}; if not, find the writer and remove "
            f"its right, then {_again(file)}, and remove what is left",
            command_line("connect-share", "repair", "refused", "-w", file),
        )


def _plain_beside_sealed(contents: Contents, groups: Sequence[Group]) -> Iterator[Finding]:
    sealed = sealed_groups(contents)
    for topic in contents.topics.values():
        counts = ((group, topic.seals[group]) for group in groups if group in sealed and group in topic.seals)
        plain = ((group, count) for group, count in counts if count.plain)
        # Of a group with nothing sealed the newest records are not kept.
        mixed = [group for group, count in plain if not count.any_sealed or count.newest_of(SealKind.PLAIN)]
        if mixed:
            yield Finding(
                "sealing-plain-beside-sealed",
                Severity.WARNING,
                topic.topic,
                f"plain values, as the newest of their keys, of groups that have sealed ones, too: {named_groups(mixed)}",
                "such a value is of before the group was sealed, or of another writer. Without keys it is known which values "
                "claim to be sealed, and not who sealed them",
                "run this with the worker file of the group, which opens its values",
                command_line("connect-share", "check", "sealing", "-w", "FILE"),
            )


def _plain_groups(contents: Contents) -> Iterator[Finding]:
    sealed = sealed_groups(contents)
    plain = [group for group in contents.groups() if group not in sealed]
    beyond = max((topic.others for topic in contents.topics.values()), default=0)
    if plain or beyond:
        yield Finding(
            "sealing-plain-groups",
            Severity.ERROR,
            _names(contents),
            f"nothing of {plural(len(plain), 'group')} is sealed: {named_groups(plain)}"
            + (f"; {plural(beyond, 'record')} of further groups not checked" if beyond else ""),
            "all groups on these topics are to be sealed; who may write there controls a plain group, and who may read there "
            "sees its values",
            "give its workers keys, and seal what is there; if there is no such group, find the writer and remove its right",
        )


def _places(topic: TopicContents, newest: Sequence[Newest]) -> str:
    shown = [
        f"{topic.topic}[{each.partition}]@{each.offset} ({plural(each.size, 'byte')})"
        for each in newest[:_SHOWN_PLACES]
    ]
    return ", ".join(shown) + (" and more" if len(newest) > _SHOWN_PLACES else "")


CHECK: Final = Check(
    "sealing",
    "is all sealed that should be, and with which keys?",
    "Check the values of sealed groups: with a worker file those of its group, which are opened; without one "
    "those of all groups, as far as that is possible without keys. Reads only; exit code 1 if a finding is an error.",
    lambda sources: find(
        sources.contents, sources.topic_set.worker, sources.worker_file, all_groups_sealed=False, only=sources.only
    ),
    place=35,
    run=_check_sealing,
    options=_add_options,
    examples=("-w worker.properties", "-w worker.properties --all-groups-sealed --output json"),
)
