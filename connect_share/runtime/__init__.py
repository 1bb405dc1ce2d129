"""For authors of Connect-like runtimes: membership in a Connect group, and parts of Connect's herder.

Membership needs the extra ``runtime``, whose library is imported when it is first used. See ``docs/group-membership.md`` and
``docs/herding.md``.
"""

from importlib import import_module

from connect_share import _modules_of

_MODULES = _modules_of(__spec__.loader, __path__[0])
__all__ = sorted(_MODULES)  # noqa: PLE0605 - no second list of the same names


def __dir__():
    return __all__


def __getattr__(name):
    """Return a public name; PEP 562."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    except ImportError as error:  # of another release, too; the package kafka is none of them
        raise ImportError(f"{error}: membership needs pip install 'kafka-python>=3.0.12,<3.1'") from error
    return found
