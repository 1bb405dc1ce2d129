"""Module names of 0.3 that were documented: importable for one version, each as the module that took its place."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

NEW_NAMES: Final = {
    "connect_share.admin": "connect_share.kafka.admin",
    "connect_share.async_storage": "connect_share.storage",
    "connect_share.client": "connect_share.kafka.client",
    "connect_share.group_membership": "connect_share.runtime",
    "connect_share.group_protocol": "connect_share.kafka.connect_protocol",
    "connect_share.herder": "connect_share.runtime",
    "connect_share.java_runtime": "connect_share.jar.java_runtime",
    "connect_share.keys": "connect_share.model.keys",
    "connect_share.record_file": "connect_share.backup.record_file",
}


class _OldModules:
    """Finds and loads the old names; the interfaces of ``importlib.abc``, whose import would cost every user."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 - Python's own call
        return ModuleSpec(name, self) if name in NEW_NAMES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make an empty module, which ``exec_module`` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        new = NEW_NAMES[module.__name__]
        warnings.warn(f"{module.__name__} has moved to {new}", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)


def install() -> None:
    """Make the old names importable."""
    sys.meta_path.append(_OldModules())
