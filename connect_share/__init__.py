"""Backing stores for Kafka Connect clusters that share their internal topics (KIP-1173).

Everything a user of the library needs is importable from here; see ``docs/embedding.md``. The module of a name is imported
when the name is first used: who needs only keys or errors waits neither for Kafka's client nor for the stores.
"""

from importlib import import_module

from connect_share import _old_modules

_old_modules.install()

# The public names are those of __init__.pyi, which type checkers read; by the loader, for this may be in a zip file.
_STUB = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
_IMPORTS = [line.split() for line in _STUB.splitlines() if line.startswith("from ")]
_MODULES = {name: module for _, module, _, name, *_ in _IMPORTS}
_PACKAGES = {module.split(".")[1] for module in _MODULES.values()}
__all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605 - no second list of the same names


def __dir__():
    return sorted({*globals(), *__all__})


def __getattr__(name):
    """Return the version, a public name, a module of such names, or a name that has moved; PEP 562."""
    if name == "__version__":
        from importlib.metadata import version

        return version("connect-share")
    if name in _MODULES:
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found
    if name in _PACKAGES or f"{__name__}.{name}" in _old_modules.NEW_NAMES:
        return import_module(f"{__name__}.{name}")
    if name != "TopicIdRepairError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warnings import warn

    warn(f"connect_share.{name} has moved to connect_share.topic_ids.errors", DeprecationWarning, stacklevel=2)
    return getattr(import_module(f"{__name__}.topic_ids.errors"), name)
