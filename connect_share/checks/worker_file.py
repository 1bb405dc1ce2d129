"""Checks of a worker file for topic sharing. Pure: properties in, findings out.

The jar itself refuses at start what cannot work. These checks report it before the worker is stopped, and also what the
jar cannot see. Values are never in a finding, names of classes and topics apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_share.checks.finding import Finding, Severity, named
from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.model.keys import BLANKS
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, WorkerConfig
from connect_share.worker_config.config_providers import (
    COMMAND_PROVIDER_CLASS,
    has_reference,
    is_reference,
    resolve_variables,
)
from connect_share.worker_config.override_policy import POLICY_CLASS, POLICY_PROPERTY, OverridePolicy

INTERCEPTORS: Final = "interceptor.classes"
EXACTLY_ONCE: Final = "exactly.once.source.support"
CLIENT_KINDS: Final = ("producer", "consumer")
"""Clients of connectors; the worker's lines for them begin so."""
INTERCEPTOR_PROPERTIES: Final = (INTERCEPTORS, *(f"{kind}.{INTERCEPTORS}" for kind in CLIENT_KINDS))

WORKER_ONLY: Final = (*TOPIC_PROPERTIES.values(), SHARING_PROPERTY)
"""Properties by which the interceptor knows that a client is the worker's own."""

_SHARING_LINE: Final = f"{SHARING_PROPERTY}=enabled"
_GROUP_ID: Final = "group.id"
_BOOTSTRAP: Final = "bootstrap.servers"
# Sharing depends on these. Any other reference that cannot be resolved here may be right on the worker's machine.
_DECIDING: Final = frozenset({_GROUP_ID, _BOOTSTRAP, EXACTLY_ONCE, *WORKER_ONLY, *INTERCEPTOR_PROPERTIES})
_ANY_KEYS: Final = f"1:{'A' * 43}="
"""Keys that stand for those of a file that cannot be read here; nothing is sealed with them."""
_SECURITY: Final = ("sasl.", "ssl.", "security.")
_CLASS_NAME: Final = re.compile(r"[\w$]+(?:\.[\w$]+)*")


_WHY: Final = {
    Severity.ERROR: "with this file topics are not shared as they should be, or the worker does not start",
    Severity.WARNING: "the worker starts; what it does may not be what is wanted",
    Severity.NOTE: "nothing is wrong; it is good to know",
}


def worker_finding(
    severity: Severity, property_name: str, what: str, add: tuple[str, ...] = (), connector: str | None = None
) -> Finding:
    """Return a finding about a worker file or a connector; :func:`in_file` says which file it is.

    ``what`` begins with what it is about, and says what to do.
    """
    return Finding(
        "worker-config" if connector is None else "worker-config-connector",
        severity,
        "the worker file",
        what,
        _WHY[severity],
        f"add {' and '.join(add)}" if add else "see the text of the finding",
        property_name=property_name,
        connector=connector,
        add=add,
    )


def in_file(finding: Finding, file: Path) -> Finding:
    """Return a finding with the file it was found in."""
    of = "" if finding.connector is None else f", connector {named([finding.connector])}"
    return replace(finding, where=f"{file}{of}")


def with_remedy(finding: Finding) -> str:
    """Return what was found, and the lines to add."""
    return f"{finding.what}; {finding.remedy}" if finding.add else finding.what


@dataclass(frozen=True)
class CheckedFile:
    """The result of checking the properties.

    Attributes:
        config: as the worker would be with sharing on; ``None`` if that is not known. Wrong properties
            have legal values in it.
        sharing_enabled: the property is there and says so.
        reachable: group, config topic and the way to the brokers are not among the findings.
    """

    findings: tuple[Finding, ...]
    config: WorkerConfig | None
    sharing_enabled: bool
    reachable: bool


def class_names(value: str) -> tuple[str, ...]:
    """Part a list of classes as Kafka does."""
    return tuple(name for part in value.split(",") if (name := part.strip(BLANKS)))


def worker_lines(*, exactly_once: bool) -> tuple[str, ...]:
    """Return the lines that a worker file needs."""
    names = [INTERCEPTORS, *(f"{kind}.{INTERCEPTORS}" for kind in CLIENT_KINDS if exactly_once)]
    return (_SHARING_LINE, *(f"{name}={INTERCEPTOR_CLASS}" for name in names))


def has_policy_of_jar(properties: Mapping[str, str]) -> bool:
    """Return whether the policy of the jar gives the interceptor to the clients of source connectors."""
    return properties.get(POLICY_PROPERTY, "").strip(BLANKS) == POLICY_CLASS


def refuses_overrides(properties: Mapping[str, str]) -> bool:
    """Return whether the worker lets no connector replace an interceptor."""
    if has_policy_of_jar(properties):
        return True
    try:
        policy = OverridePolicy.of(properties)
    except ConfigError:
        return False  # a class of the worker's own: its rules are not known here
    return not any(policy.allows(name) for name in (INTERCEPTORS, *WORKER_ONLY))


def check_properties(properties: Mapping[str, str], *, java: bool = True) -> CheckedFile:
    """Check a worker's properties, config providers not yet resolved; without ``java`` for the Python stores."""
    config, found = _validated(properties)
    reported = {finding.property_name for finding in found}
    try:
        given: Mapping[str, str] = resolve_variables(properties)
    except ConfigError:
        given = properties
    word = given.get(SHARING_PROPERTY, "").strip(BLANKS).lower()
    if word != "enabled" and SHARING_PROPERTY not in reported:
        trouble = "is missing" if not word else "is disabled" if word == "disabled" else "has to be enabled or disabled"
        found.append(
            worker_finding(Severity.ERROR, SHARING_PROPERTY, f"{SHARING_PROPERTY} {trouble}", (_SHARING_LINE,))
        )
    if java:
        exactly_once = "disabled" if config is None else config.exactly_once_source_support
        found += [each for each in _of_java(properties, given, exactly_once) if each.property_name not in reported]
    unusable = {finding.property_name for finding in found if finding.severity is not Severity.NOTE}
    reachable = config is not None and not any(
        name in (_GROUP_ID, _BOOTSTRAP, TOPIC_PROPERTIES[TopicType.CONFIG]) or name.startswith(_SECURITY)
        for name in unusable
    )
    return CheckedFile(tuple(found), config, word == "enabled", reachable)


def _of_java(raw: Mapping[str, str], given: Mapping[str, str], exactly_once: str) -> Iterable[Finding]:
    yield from _interceptors(raw, given, exactly_once)
    yield from _worker_only_lines(given)
    yield from _providers_of_python(raw)
    if "," in (servers := given.get(_BOOTSTRAP, "")) and not all(each.strip() for each in servers.split(",")):
        text = f"{_BOOTSTRAP} has an empty entry, on which newer workers (4.3) do not start; take the comma out"
        yield worker_finding(Severity.WARNING, _BOOTSTRAP, text)
    if exactly_once == "enabled" and not refuses_overrides(given):
        yield worker_finding(
            Severity.WARNING,
            POLICY_PROPERTY,
            f"{POLICY_PROPERTY} lets connectors replace the interceptor, and the offsets of one that does get plain "
            f"keys; None, Principal, or an Allowlist without {INTERCEPTORS} prevents it, if connectors need no other "
            "override",
        )


def _validated(properties: Mapping[str, str]) -> tuple[WorkerConfig | None, list[Finding]]:
    """Return all errors, not only the first: a wrong property gets a legal value, and the file is read again."""
    given = {**properties, SHARING_PROPERTY: "enabled"}
    found: list[Finding] = []
    while True:
        try:
            return WorkerConfig.from_properties(given), found
        except InvalidClusterGroupIdError as exc:
            name, message = _GROUP_ID, str(exc)
        except ConfigError as exc:
            name, message = exc.property_name or "", str(exc)
        if not name or any(finding.property_name == name for finding in found):
            if not name:
                found.append(worker_finding(Severity.ERROR, name, message))
            return None, found
        found.append(_invalid(name, message, properties))
        if name in (_GROUP_ID, *TOPIC_PROPERTIES.values()):
            given[name] = name  # a legal name, and used nowhere else
        elif name == _BOOTSTRAP:
            given[name] = "localhost:9092"
        elif name == KEYS_PROPERTY:
            given[name] = _ANY_KEYS
        elif name.startswith(_SECURITY):
            given = {other: value for other, value in given.items() if not other.startswith(_SECURITY)}
        else:
            given.pop(name, None)


def _invalid(name: str, message: str, properties: Mapping[str, str]) -> Finding:
    text = message if message.startswith(name) else f"{name}: {message}"
    elsewhere = name not in _DECIDING and (has_reference(properties.get(name, "")) or name.startswith(_SECURITY))
    if elsewhere:
        return worker_finding(Severity.WARNING, name, f"{text} (this command cannot follow it; the worker may)")
    return worker_finding(Severity.ERROR, name, text)


def _interceptors(raw: Mapping[str, str], given: Mapping[str, str], exactly_once: str) -> Iterable[Finding]:
    yield from _one_list(INTERCEPTORS, raw, given, Severity.ERROR, "keys would be written without the group's prefix")
    yield from _neighbours(given)
    for kind, does in (("producer", "write"), ("consumer", "read")):
        missing, why = None, ""
        if exactly_once == "enabled":
            missing = Severity.ERROR
            why = f"with {EXACTLY_ONCE}=enabled the {kind}s of connectors {does} offsets in the worker's topic"
        elif exactly_once == "preparing":
            missing = Severity.WARNING
            why = f"it has to be there before {EXACTLY_ONCE} becomes enabled"
        if has_policy_of_jar(given):
            missing = None
        yield from _one_list(f"{kind}.{INTERCEPTORS}", raw, given, missing, why)


def _one_list(
    name: str, raw: Mapping[str, str], given: Mapping[str, str], missing: Severity | None, why: str
) -> Iterable[Finding]:
    times = class_names(given.get(name, "")).count(INTERCEPTOR_CLASS)
    if times == 0 and missing is not None:
        yield worker_finding(missing, name, f"{name} does not have {INTERCEPTOR_CLASS}: {why}", add=(_line(name, raw),))
    elif times > 1:
        yield worker_finding(
            Severity.ERROR,
            name,
            f"{name} has {INTERCEPTOR_CLASS} {times} times: keys would get the prefix again, and the worker does not start",
            add=(_line(name, raw),),
        )


def _line(name: str, raw: Mapping[str, str]) -> str:
    """Write the line as it has to be: what is there, references as they are, and the interceptor once at the end."""
    others = [text for text in class_names(raw.get(name, "")) if text != INTERCEPTOR_CLASS]
    shown = [text for text in others if _CLASS_NAME.fullmatch(text) or is_reference(text)]
    kept = shown if len(shown) == len(others) else ["(what is there)"]
    return f"{name}={','.join([*kept, INTERCEPTOR_CLASS])}"


def _neighbours(given: Mapping[str, str]) -> Iterable[Finding]:
    names = class_names(given.get(INTERCEPTORS, ""))
    if names.count(INTERCEPTOR_CLASS) != 1 or len(names) == 1:
        return
    # Kafka calls the interceptors in the order of the list, both when sending and when reading.
    place = names.index(INTERCEPTOR_CLASS)
    parts = []
    if place:
        parts.append(
            f"the {place} before it see{'' if place > 1 else 's'} plain keys when sending, and the prefixed keys of all "
            f"groups when reading"
        )
    behind = len(names) - place - 1
    if behind:
        parts.append(
            f"the {behind} after it see{'' if behind > 1 else 's'} prefixed keys when sending, and only the plain keys of "
            f"this group when reading"
        )
    yield worker_finding(
        Severity.NOTE,
        INTERCEPTORS,
        f"{INTERCEPTORS} has other interceptors too: {'; '.join(parts)}; none of them may change keys",
    )


def _worker_only_lines(given: Mapping[str, str]) -> Iterable[Finding]:
    for kind in CLIENT_KINDS:
        if INTERCEPTOR_CLASS in class_names(given.get(f"{kind}.{INTERCEPTORS}", "")):
            for name in WORKER_ONLY:
                if f"{kind}.{name}" in given:
                    yield worker_finding(
                        Severity.ERROR,
                        f"{kind}.{name}",
                        f"{kind}.{name} makes the interceptor treat the clients of connectors as the worker's own; "
                        f"remove this line",
                    )


def _providers_of_python(raw: Mapping[str, str]) -> Iterable[Finding]:
    for provider in class_names(raw.get("config.providers", "")):
        name = f"config.providers.{provider}.class"
        if raw.get(name, "").strip() == COMMAND_PROVIDER_CLASS:
            yield worker_finding(
                Severity.ERROR,
                name,
                f"{name} is a config provider of the Python stores and tools: a Java worker does not know it, and does not "
                "start; give Java workers a provider of their own for this",
            )


def lines_to_add(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the lines of all findings, each once."""
    return tuple(dict.fromkeys(line for finding in findings for line in finding.add))
