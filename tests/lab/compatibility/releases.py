"""Wheels of releases, built from the history of this repository; the product itself stands alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from tests.lab.house.__main__ import unpack

ROOT: Final = Path(__file__).parents[3]
COMMITS: Final = {"0.3.0": "0f50201f11eec2e9cea5b90ae3d04dcaaf805eda"}
"""The commits of releases that workers in use may run."""
_JAR: Final = "connect_share/*/connect-share-topic-sharing.jar"


@dataclass(frozen=True)
class Code:
    """The code that a member runs: its modules, the folder that the example runtime is in, and its jar."""

    name: str
    modules: Path
    examples: Path

    @property
    def jar(self) -> Path:
        """The jar for Java workers."""
        return next(self.modules.glob(_JAR))

    def command(self, module: str, *arguments: str | Path) -> list[str]:
        """Return a command line that runs a module with this code and no other."""
        return ["env", f"PYTHONPATH={self.modules}", sys.executable, "-m", module, *map(str, arguments)]


BUILT: Final = Code("built", ROOT, ROOT / "docs" / "examples")


def released(version: str, folder: Path) -> Code:
    """Build the wheel of a release, and unpack it with the example runtime of that time."""
    if version not in COMMITS:
        raise ConfigError(f"there is no release {version}; there are {', '.join(COMMITS)}")
    place, source = folder / version / "wheel", folder / version / "source"
    if not any(place.glob(_JAR)):
        shutil.rmtree(folder / version, ignore_errors=True)
        try:
            unpack(COMMITS[version], source)
        except subprocess.CalledProcessError as error:
            raise ConfigError(f"commit {COMMITS[version]} is not in this repository: fetch its history") from error
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*build, "--wheel-dir", str(source), str(source)], check=True)
        (wheel,) = source.glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            content.extractall(place)
    code = Code(version, place, source / "docs" / "examples")
    said = subprocess.check_output(code.command("connect_share", "--version"), text=True)
    if version not in said:
        raise ConfigError(f"{place} says that it is {said.strip()}: delete it")
    return code
