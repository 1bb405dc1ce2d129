"""Which unit tests are near a module: those that import it themselves; where there is none, those over the fewest modules."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.lab.near import ROOT, import_graph, is_unit

FILES, _TEXTS, _IMPORTERS = import_graph(ROOT)


def modules_of(names: tuple[str, ...]) -> list[str]:
    """Return the modules with these names, and those in packages with these names."""
    found = (module for module in FILES if f"{module}.".startswith(tuple(f"{name}." for name in names)))
    return [module for module in found if FILES[module].name != "__init__.py"]


@cache
def near(module: str) -> tuple[Path, ...]:
    """Return the unit tests near a module, the quickest first.

    Raises:
        LookupError: there is none.
    """
    seen, last = {module}, {module}
    while last:
        last = {importer for each in last for importer in _IMPORTERS.get(each, ())} - seen
        seen |= last
        tests = [each for each in last if is_unit(FILES[each].as_posix()) and ".test_" in each]
        if tests:
            # Property tests take longer than others.
            return tuple(FILES[each] for each in sorted(tests, key=lambda test: ("hypothesis" in _TEXTS[test], test)))
    raise LookupError(f"no unit test is near {module}")
