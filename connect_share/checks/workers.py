"""What workers tell each other beside what lies on the topics: who reads another topic, who does nothing."""

from __future__ import annotations

import argparse
import json
import socket
import time
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from http.client import HTTPException
from typing import Final, NamedTuple

from connect_share.checks.check import Check, add_check_options
from connect_share.checks.finding import Finding, Severity, named, of_group, place
from connect_share.checks.sources import CheckSources
from connect_share.console.options import Parser
from connect_share.console.output import plural
from connect_share.contents.workers import LOOK_S, WatchedGroup, watch
from connect_share.errors import ConfigError, command_line
from connect_share.kafka.descriptions import GroupMember
from connect_share.kafka.read import console_admin
from connect_share.model.records import Record, TopicType

_PROTOCOLS: Final = {"default": "eager", "compatible": "compatible", "sessioned": "sessioned"}
"""The oldest first: names in the group protocol, and as the property ``connect.protocol`` has them."""
_MANY: Final = 4
_OLD_MS: Final = 60_000
"""A worker reads the topic to its end before it joins: what it has not read then is younger than this."""
_CONNECT_S: Final = 5.0

_Wording = tuple[Severity, str, str]
_OTHER_TOPIC: Final = (
    Severity.ERROR,
    (
        "it reads another config topic under this group.id, or the topic was made anew under it: its log repeats 'behind "
        "group assignment', REST does not answer, and what is assigned to it does not run"
    ),
    "stop it, or give one of the two clusters another group.id: workers of one group have the same three topics",
)
_NOT_SETTLED: Final = (
    Severity.ERROR,
    "while a group rebalances its workers start nothing, and REST answers with 409 or not at all",
    "stop workers that do not belong to it; then look at the log of the one that leaves again and again",
)
_PROTOCOL: Final = (
    Severity.WARNING,
    "with eager each rebalance stops everything, and without sessioned whoever reaches REST can send task configurations",
    "one old file sets it for all: give all files the same connect.protocol, and restart the workers one after the other",
)
_IDLE: Final = (
    Severity.WARNING,
    "the leader spreads work evenly, so these cannot take any",
    "look at their logs, and restart them one after the other",
)
_UNREACHABLE: Final = (
    Severity.ERROR,
    "workers send REST requests on to their leader, and those that change something fail",
    "set rest.advertised.host.name and .port of that worker to what others reach, or run this where the workers run",
)


_SILENT: Final = (
    Severity.ERROR,
    "a worker that is well lists its connectors at any time; 409 is a rebalance, 500 a value that it cannot read",
    "look at its log, and at what else was found: a group that does not settle, values that no worker can use",
)
_DIFFERS: Final = (
    Severity.ERROR,
    "it is a worker of another group, or it reads another config topic",
    "compare group.id and config.storage.topic of its worker file with those that were checked",
)
_MOST_BYTES: Final = 1 << 22
_OPENER: Final = urllib.request.OpenerDirector()
for _handler in ("HTTPHandler", "HTTPSHandler", "HTTPDefaultErrorHandler", "HTTPErrorProcessor"):
    _OPENER.add_handler(getattr(urllib.request, _handler)())


class ConfigTopic(NamedTuple):
    """The config topic of a group, its end, and the newest record of each key of the group."""

    topic: str
    end: int
    records: Collection[Record] = ()


def _finding(where: str, command: str | None, kind: str, wording: _Wording, what: str) -> Finding:
    severity, why, remedy = wording
    return Finding(f"workers-{kind}", severity, where, what, why, remedy, command)


def find(
    group: WatchedGroup, config: ConfigTopic, protocol: str | None, *, where: str, command: str
) -> Iterator[Finding]:
    """Yield what is found of a live group.

    ``protocol`` is ``connect.protocol`` of a worker file of the group, ``command`` shows the workers.
    """
    finding = partial(_finding, where, command)
    elsewhere = {each.member_id: what for each in group.members if (what := _elsewhere(group, each, config))}
    yield from (finding("other-topic", _OTHER_TOPIC, what) for what in elsewhere.values())
    if not group.is_settled:
        names = named(sorted(map(_name, group.members)))
        looks = f"calm in {group.calm} of {plural(group.looks, 'look')}"
        yield finding("not-settled", _NOT_SETTLED, f"does not settle, {looks}; its workers are {names}")
    if not group.is_settled or not group.members:
        return
    used, ranks = _PROTOCOLS.get(group.members[0].protocol, ""), list(_PROTOCOLS.values())
    if protocol in ranks and used and ranks.index(used) < ranks.index(protocol):
        yield finding(
            "protocol", _PROTOCOL, f"its workers use connect.protocol {used}, the worker file says {protocol}"
        )
    idle, most = _idle(group)
    if idlers := sorted(_name(each) for each in idle if each.member_id not in elsewhere):
        what = f"another worker runs {most:,} connectors and tasks, these run nothing: {named(idlers)}"
        yield finding("idle", _IDLE, what)


def _elsewhere(group: WatchedGroup, member: GroupMember, config: ConfigTopic) -> str:
    """Return how it is known that a worker reads another config topic; empty: it is not."""
    state, given = member.state, member.assignment
    if state is None:
        return ""
    at, assigned = state.config_offset, -1 if given is None else given.config_offset
    if at > config.end:
        return f"worker {_name(member)} is at position {at:,}, and {config.topic} ends at {config.end:,}"
    missed = [each.timestamp_ms for each in config.records if at <= each.offset < assigned]
    # Who joined while records were written reads on, and says so when it joins the next time.
    if at >= assigned or (group.is_settled and (not missed or max(missed) - min(missed) <= _OLD_MS)):
        return ""
    return f"worker {_name(member)} is at position {at:,}, and what the leader assigns at {assigned:,}"


def _idle(group: WatchedGroup) -> tuple[list[GroupMember], int]:
    """Return the workers that run nothing, and the most that one runs; none while more is to come."""
    given = [each.assignment for each in group.members]
    running = [each.running for each in group.members]
    counts = [0 if each is None else len(each.connectors) + len(each.tasks) for each in running]
    if None in running or max(counts) < _MANY or any(each is None or each.delay_ms or each.revoked for each in given):
        return [], 0
    return [each for each, count in zip(group.members, counts, strict=True) if not count], max(counts)


def _unreachable(group: WatchedGroup, where: str, command: str) -> Iterator[Finding]:
    url = next((each.assignment.leader_url for each in group.members if each.assignment is not None), "")
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.hostname:
            socket.create_connection((parts.hostname, parts.port or 80), timeout=_CONNECT_S).close()
    except (OSError, ValueError) as error:
        what = f"nothing answers at {named([url])}, the URL of the leader: {error}"
        yield _finding(where, command, "leader-unreachable", _UNREACHABLE, what)


def _name(member: GroupMember) -> str:
    return f"{named([member.worker_id or member.client_id])} ({member.host})"


def _by_rest(sources: CheckSources, urls: Collection[str]) -> Iterator[Finding]:
    """Yield how what workers at these addresses say differs from the config topic."""
    own = sources.topic_set.worker_group if sources.only is None else sources.only
    states = [each for each in sources.groups if own is None or each.group in own]
    groups = [each.group for each in states] or [*(own or ())]  # one without a record has no connector
    if urls and len(groups) > 1:
        raise ConfigError("--rest URL is of one group: give its worker file, or --group ID")
    topic = sources.state.topics[TopicType.CONFIG]
    there = {name for each in states for name in each.config.connectors()}
    for url in urls:
        try:
            names = set(_connectors_at(url))
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            yield _finding(url, None, "rest-silent", _SILENT, f"gives no list of its connectors: {error}")
            continue
        with console_admin(sources.topic_set) as admin:
            (end,) = admin.end_offsets([(topic, 0)]).values()
        if end != sources.contents.topics[TopicType.CONFIG].end:
            sources.note(f"{topic} has changed since it was read: it was not compared with {url}")
        elif names != there:
            lacks, more = (named(sorted(each)) or "none" for each in (there - names, names - there))
            what = f"of the topic's connectors it lacks {lacks}; that the topic does not have it has {more}"
            found = [_finding(url, None, "rest-differs", _DIFFERS, what)]
            yield from of_group(groups[0], found) if groups else found


def _connectors_at(url: str) -> list[str]:
    """Return the names of connectors that a worker gives; follows no redirect, and ends at a size and a time."""
    deadline_s, body = time.monotonic() + _CONNECT_S, b""
    with _OPENER.open(f"{url.rstrip('/')}/connectors", timeout=_CONNECT_S) as answer:
        while chunk := answer.read1(1 << 16):
            body += chunk
            if len(body) > _MOST_BYTES or time.monotonic() > deadline_s:
                raise ValueError(
                    f"the answer is larger than {_MOST_BYTES:,} bytes, or took longer than {_CONNECT_S:g} s"
                )
    names = json.loads(body)
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise ValueError("the answer is no list of names")
    return names


def _url(text: str) -> str:
    try:
        parts = urllib.parse.urlsplit(text)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        is_url = False
    if text and not is_url:
        raise argparse.ArgumentTypeError("has to be http://HOST:PORT or https://HOST:PORT")
    return text


def _in_groups(sources: CheckSources) -> Iterator[Finding]:
    yield from _by_rest(sources, [url for url in sources.rest if url])
    topic_set, topic = sources.topic_set, sources.state.topics[TopicType.CONFIG]
    records: Mapping[object, Collection[Record]] = {
        each.group: each.kept.history.latest.values() for each in sources.groups
    }
    own = topic_set.worker_group or () if sources.only is None else ()
    ids = {sources.group_id_of(group): group for group in (*records, *own)}
    live = {group_id: ids[group_id] for group_id in ids if group_id is not None and sources.members.get(group_id)}
    if not live:
        return
    with console_admin(sources.topic_set) as admin:
        watched = watch(admin, live)
        (end,) = admin.end_offsets([(topic, 0)]).values()
    for group_id, group in live.items():
        worker = topic_set.worker if topic_set.worker is not None and topic_set.worker.group_id == group_id else None
        protocol = None if worker is None else worker.originals.get("connect.protocol", "sessioned")
        words = ["-w", str(sources.worker_file)]
        if worker is None:
            words = [*topic_set.settings.reached_by, f"--group-id={group_id}"]
        where, command = place(topic, group), command_line("connect-share", "get", "workers", *words)
        config = ConfigTopic(topic, end, records.get(group, ()))
        yield from of_group(group, find(watched[group_id], config, protocol, where=where, command=command))
        if "" in sources.rest:
            yield from of_group(group, _unreachable(watched[group_id], where, command))


def _add_options(parser: Parser) -> None:
    add_check_options(parser)
    parser.add_argument(
        "--rest",
        metavar="URL",
        nargs="?",
        const="",
        action="append",
        default=[],
        type=_url,
        help="also ask the worker at this address which connectors it has, may be repeated; without URL connect to the one "
        "that each group's leader gives",
    )


CHECK: Final = Check(
    "workers",
    "do the workers of each group agree with each other, and with the topics?",
    f"Look at the live members of each group, for up to {LOOK_S:g} seconds: groups that do not settle, workers that read "
    "another config topic under the same group.id, workers with nothing to do, and an older protocol than the worker file's. "
    "No worker is asked, but with --rest.",
    _in_groups,
    needs=(TopicType.CONFIG,),
    reads=(TopicType.CONFIG,),
    place=25,
    options=_add_options,
)
