"""The benchmark's file: what is in it already is not measured again, and what does not belong together is not mixed."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

import connect_share
from connect_share.errors import ConfigError, ConnectShareError
from connect_share.files import write_private_file
from connect_share.kafka.client import library_versions
from spark_jobs.startup.result import FORMAT, Scenario, Starts, StartupResult, Storm
from spark_jobs.startup.scenarios import COLD_STARTS
from tests.lab.embedded.broker import DEFAULT_VERSION

_MOST_BYTES: Final = 64 << 20
"""A whole one has less than one MiB."""

_CHANGING: Final = frozenset({"load_1_minute"})
_NOT_MEASURED: Final = ("cli", "embedded", "jar", "topic_ids", "contents")
"""Parts of our package that do not run in a start."""


def versions() -> dict[str, str]:
    """Versions of everything that is measured; our own with a digest, for its code changes between versions."""
    package = Path(connect_share.__file__).parent
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        inside = source.relative_to(package)
        if inside.parts[0] not in _NOT_MEASURED:
            digest.update(f"{inside}\0".encode() + source.read_bytes())
    ours = f"{version('connect-share')}+{digest.hexdigest()[:10]}"
    return {**library_versions(), "kafka": DEFAULT_VERSION, "connect_share": ours}


def load(path: Path | None, machine: Mapping[str, Any], known_versions: Mapping[str, str]) -> StartupResult:
    """Read what was measured before; an empty result if there is no such file.

    Raises:
        ConfigError: the file is something else, or was measured on another machine or with other versions.
    """
    fresh = StartupResult(machine=dict(machine), versions=dict(known_versions))
    if path is None or not path.exists():
        return fresh
    remedy = "give another --result, or --again to measure everything anew"
    found = read(path, remedy)
    for what in ("machine", "versions"):
        before, now = getattr(found, what), getattr(fresh, what)
        for name in sorted((before.keys() | now.keys()) - _CHANGING):
            if before.get(name) != now.get(name):
                raise ConfigError(
                    f"{path} was measured with another {what.removesuffix('s')}: {name} was {before.get(name)}, "
                    f"is {now.get(name)}; figures of both do not belong in one table: {remedy}",
                    property_name="result",
                )
    return found


def read(path: Path, remedy: str = "measure again, or name another file") -> StartupResult:
    """Read a result, of whatever machine and versions.

    Raises:
        ConfigError: the file cannot be read, or is something else; its text ends with the remedy.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} is longer than {_MOST_BYTES >> 20} MiB; {remedy}", property_name="result")
        found = StartupResult.model_validate_json(path.read_bytes())
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}", property_name="result") from exc
    except ValidationError as exc:
        raise ConfigError(
            f"{path} is not a result of the start-up benchmark; {remedy}", property_name="result"
        ) from exc
    if found.format != FORMAT:
        raise ConfigError(f"{path} has another format than {FORMAT}; {remedy}", property_name="result")
    return found


def save(path: Path, result: StartupResult) -> None:
    """Write the file so that it is whole at any time.

    Raises:
        ConnectShareError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(path, (result.model_dump_json(indent=2) + "\n").encode())
        path.chmod(0o644)  # no records are in it
    except OSError as exc:
        raise ConnectShareError(f"{path} cannot be written: {exc.strerror}; name another file") from exc


def has_starts(result: StartupResult, scenario: Scenario, contenders: Sequence[str], rounds: int) -> bool:
    """Return whether all contenders were measured on exactly this scenario, often enough."""
    cold = {
        starts.contender: len(starts.seconds)
        for starts in result.starts
        if starts.scenario == scenario.name and starts.warmth == "cold"
    }
    return scenario in result.scenarios and all(
        cold.get(contender, 0) >= rounds * COLD_STARTS.get(contender, 1) for contender in contenders
    )


def has_storm(result: StartupResult, scenario: str, starts: int, at_once: int) -> bool:
    """Return whether this storm was measured."""
    return any((storm.scenario, storm.starts, storm.at_once) == (scenario, starts, at_once) for storm in result.storms)


def has_latencies(result: StartupResult, contenders: Sequence[str], groups: Sequence[int], puts: int) -> bool:
    """Return whether puts into all stores were measured, often enough."""
    found: dict[tuple[str, str, int], int] = {
        (each.contender, each.store, each.groups): len(each.seconds) for each in result.latencies
    }
    kinds = itertools.product(contenders, ("config", "status", "offset"), groups)
    return all(found.get(kind, 0) >= puts for kind in kinds)


def with_starts(result: StartupResult, scenario: Scenario, starts: Sequence[Starts]) -> StartupResult:
    """Return the result with these starts in place of all earlier ones of the scenario: ratios are of one run."""
    others = [each for each in result.scenarios if each.name != scenario.name]
    kept = [each for each in result.starts if each.scenario != scenario.name]
    return result.model_copy(update={"scenarios": [*others, scenario], "starts": [*kept, *starts]})


def with_storm(result: StartupResult, storm: Storm) -> StartupResult:
    """Return the result with this storm in place of an earlier one."""
    name = (storm.scenario, storm.starts, storm.at_once)
    others = [each for each in result.storms if (each.scenario, each.starts, each.at_once) != name]
    return result.model_copy(update={"storms": [*others, storm]})
