"""Transactions that are open on the topics, and hold up readers of committed records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from connect_share.checks.check import Check, add_check_options
from connect_share.checks.finding import Finding, Severity
from connect_share.kafka.read import OpenTransaction
from connect_share.model.records import shown_time
from connect_share.worker_config import ClientSettings

LONGEST_MS: Final = 900_000
"""The brokers' default of ``transaction.max.timeout.ms``: what is open for longer was not ended by them."""


def find(opened: Iterable[OpenTransaction], client: ClientSettings, now_ms: int) -> Iterator[Finding]:
    """Yield a finding for each open transaction, an error for those that hang."""
    for each in opened:
        age_ms = None if each.since_ms is None else now_ms - each.since_ms
        hangs = age_ms is not None and age_ms > LONGEST_MS
        since = "since when is not known"
        if age_ms is not None:
            since = f"since {shown_time(each.since_ms)} ({max(0, age_ms) // 1000:,} s)"
        yield Finding(
            "transactions-hanging" if hangs else "transactions-open",
            Severity.ERROR if hangs else Severity.WARNING,
            f"{each.topic}[{each.partition}]@{each.start_offset}",
            f"a transaction is open, {since}. {each.claim()}",
            "workers with exactly-once read up to here and no further: they do not start, and see no change",
            "its time-out has passed, so nobody ends it: stop its producer, then abort it"
            if hangs
            else "wait: it ends at the latest after its transaction.timeout.ms, a minute by default. If it stays, stop its "
            "producer, then abort it",
            each.aborting(client),
        )


CHECK: Final = Check(
    "transactions",
    "is a transaction open that holds up readers?",
    "Look for transactions that are open on the topics: whose they seem to be, since when, and the command that aborts "
    "them. One that is open for longer than 15 minutes hangs, and is an error.",
    lambda sources: find(sources.open_transactions(), sources.topic_set.settings, sources.now_ms),
    refuses_group="an open transaction holds up the readers of all groups",
    place=20,
    options=partial(add_check_options, folds=False),
)
