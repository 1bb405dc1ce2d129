"""Secrets in clear text in configurations of connectors and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connect_share.checks.check import Check, in_each_group
from connect_share.checks.finding import Finding, Severity, named, place
from connect_share.checks.sources import GroupState
from connect_share.model.keys import ConfigKey, subject_of
from connect_share.model.records import TopicType
from connect_share.transform.canonical import properties_of
from connect_share.worker_config.secret_values import clear_text_secrets


def find(topic: str, state: GroupState) -> Iterator[Finding]:
    """Yield the connectors with secrets in their newest records, those of removed connectors included; never a value."""
    found: dict[str, set[str]] = {}
    for original, record in state.kept.history.latest.items():
        subject = subject_of(TopicType.CONFIG, original)
        if subject is None or subject.kind not in (ConfigKey.CONNECTOR, ConfigKey.TASK):
            continue
        properties = properties_of(record)
        if names := clear_text_secrets(properties if isinstance(properties, dict) else {}):
            found.setdefault(subject.connector, set()).update(names)
    yield from (
        Finding(
            "secrets-clear-text",
            Severity.ERROR,
            place(topic, state.group, connector),
            f"what looks like a secret is in clear text: {named(sorted(names))}",
            "whoever may read the topic reads it: the workers of all groups on it, and every tool that shows configurations",
            "put it into a file of the worker and refer to it, as in ${file:/path/to/file:name}; change the secret, for the "
            "old record stays until the cleaner has taken it",
        )
        for connector, names in sorted(found.items())
    )


CHECK: Final = Check(
    "secrets",
    "are there secrets in clear text?",
    "Look for secrets in clear text in configurations of connectors and tasks. Judged by the name of the property and "
    "the form of the value; a reference such as ${file:...} is fine. Values are never shown.",
    in_each_group(find, TopicType.CONFIG),
    needs=(TopicType.CONFIG,),
    reads=(TopicType.CONFIG,),
    place=60,
)
