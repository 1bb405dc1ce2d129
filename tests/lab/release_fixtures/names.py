"""Public names, and what their callables take, as plain text."""

from __future__ import annotations

import enum
import importlib
import inspect
from typing import Any, Final

MODULES: Final = ("connect_share", "connect_share.exporter", "connect_share.runtime", "migrator")
"""Modules whose ``__all__`` is public."""

_JOBS: Final = (
    "apply_plan",
    "benchmark_startup",
    "export_groups",
    "generate_workload",
    "profile_topics",
    "verify_plan",
)
_EVENTS: Final = (
    "ConnectorConfigRemoved",
    "ConnectorConfigUpdated",
    "LoggerLevelUpdated",
    "RestartRequested",
    "SessionKeyUpdated",
    "TargetStateChanged",
    "TaskConfigsUpdated",
)
IN_DOCS: Final = {
    "connect_share.backup.record_file": ("RecordFile",),
    "connect_share.jar.java_runtime": ("JavaMissingError",),
    "connect_share.kafka.admin": ("Admin", "NewTopicRequest"),
    "connect_share.kafka.client": ("to_whole_record",),
    "connect_share.kafka.connect_protocol": ("ConnectorsAndTasks",),
    "connect_share.storage": _EVENTS,
    "spark_jobs.record_files": ("read_record_files",),
    **{f"spark_jobs.{job}": ("main",) for job in _JOBS},
}
"""Modules of which the docs and their examples name these."""


def public_names() -> dict[str, dict[str, Any]]:
    """Return by module what is public, see :func:`public_name`."""
    modules = {name: importlib.import_module(name).__all__ for name in MODULES}
    return {
        module: {name: public_name(module, name) for name in sorted(names)}
        for module, names in {**modules, **IN_DOCS}.items()
    }


def public_name(module: str, name: str) -> dict[str, Any]:
    """Return what a function takes; what a class and its methods take; the values of an enum; or the type's name."""
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, enum.EnumMeta):
        return {"values": {name: value[name].value for name in value.__members__}}
    if inspect.isclass(value):
        inherited = {name for base in value.__mro__ if base.__module__ == "builtins" for name in dir(base)}
        fields = {*getattr(value, "__dataclass_fields__", ()), *getattr(value, "model_fields", ())}
        names = sorted(name for name in {*dir(value), *fields} - inherited if not name.startswith("_"))
        return {"takes": _takes(value), "members": {name: _member(value, name) for name in names}}
    return {"takes": _takes(value)} if callable(value) else {"type": type(value).__name__}


def _member(owner: type, name: str) -> str | None:
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, classmethod):
        found = getattr(owner, name)
    return _takes(found) if inspect.isroutine(found) else None


def _takes(value: Any) -> str | None:
    """Return the parameters as they would stand in a definition, each default as ``...``."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (ValueError, TypeError):  # made in C
        return None
    bare = [
        each.replace(annotation=each.empty, default=each.empty if each.default is each.empty else _ANY)
        for each in parameters
    ]
    return str(inspect.Signature(bare))[1:-1]


class _Default:
    def __repr__(self) -> str:
        return "..."


_ANY: Final = _Default()


def signature_of(takes: str) -> inspect.Signature:
    """Return the signature that :func:`public_names` wrote down."""
    return inspect.signature(eval(f"lambda {takes}: None"))
