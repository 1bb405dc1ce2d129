"""How large the code may become. Whoever makes it smaller lowers a ceiling; nobody raises one in passing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.lab.house.size import HouseSize

LESS_CODE: Final = "Take away what is said twice, or use what is there."


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that one figure may be, and what to do above it."""

    most: int
    remedy: str = LESS_CODE


CEILINGS: Final = {
    "lines of the core": Ceiling(51_691),
    "lines of the parts": Ceiling(7_258),
    "lines of the lab": Ceiling(13_000, "What is only measured once needs no code here."),
    "lines of the tests": Ceiling(51_778, "Add a case to a test that is there, or take out one that another repeats."),
    "entries of connect_share": Ceiling(22, "Give the new module a place in a package that is there."),
    "lines of a file": Ceiling(700, "Divide the file by its concepts."),
    "class names used twice": Ceiling(4, "Name the class by what it has that the other has not."),
}


def figures(size: HouseSize) -> dict[str, int]:
    """Return what :data:`CEILINGS` limits."""
    return {
        **{f"lines of the {area}": size.areas[area].lines for area in ("core", "parts", "lab", "tests")},
        "entries of connect_share": len(size.entries),
        "lines of a file": size.longest_files[0][0],
        "class names used twice": len(size.repeated_classes),
    }


def excesses(size: HouseSize, ceilings: Mapping[str, Ceiling] = CEILINGS) -> list[str]:
    """Return a sentence for each figure above its ceiling."""
    longest = ceilings["lines of a file"].most
    which = {
        "lines of a file": ", ".join(path for lines, path in size.longest_files if lines > longest),
        "class names used twice": ", ".join(size.repeated_classes),
    }
    found = []
    for name, figure in figures(size).items():
        ceiling = ceilings[name]
        if figure > ceiling.most:
            named = f" ({which[name]})" if name in which else ""
            above = f"{figure:,} are {figure - ceiling.most:,} above the ceiling of {ceiling.most:,}{named}"
            found.append(f"{name}: {above}. {ceiling.remedy}")
    return found
