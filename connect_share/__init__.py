"""Backing stores for Kafka Connect clusters that share their internal topics (KIP-1173).

Everything a user of the library needs is importable from here; see ``docs/embedding.md``. The module of a name is imported
when the name is first used: who needs only keys or errors waits neither for Kafka's client nor for the stores.
"""

from importlib import import_module
from warnings import warn

from connect_share import _old_modules

_old_modules.install()


def _modules_of(loader, folder):
    """Return the public names of a package with their modules: those of its stub, which type checkers read."""
    stub = loader.get_data(f"{folder}/__init__.pyi").decode()  # it may be in a zip file
    imports = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in imports}


_MODULES = _modules_of(__spec__.loader, __path__[0])
_PACKAGES = {module.split(".")[1] for module in _MODULES.values()}
__all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605 - no second list of the same names


def __dir__():
    return sorted({*globals(), *__all__})


def __getattr__(name):
    """Return the version, a public name, a module of such names, or a name that has moved; PEP 562."""
    if name == "__version__":
        return import_module("importlib.metadata").version("connect-share")
    if name in _MODULES:
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found
    if name in _PACKAGES or f"{__name__}.{name}" in _old_modules.NEW_NAMES:
        return import_module(f"{__name__}.{name}")
    if name != "TopicIdRepairError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(f"connect_share.{name} has moved to connect_share.topic_ids.errors", DeprecationWarning, stacklevel=2)
    return getattr(import_module(f"{__name__}.topic_ids.errors"), name)
