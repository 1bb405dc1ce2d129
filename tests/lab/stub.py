"""Make ``connect_share/__init__.pyi``, what type checkers see of the public names: ``python -m tests.lab.stub``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import connect_share

STUB: Final = Path(connect_share.__file__).with_suffix(".pyi")


def stub() -> str:
    """Return the text of the stub."""
    names: dict[str, str] = vars(connect_share)["_MODULES"]
    found = sorted((module, name) for name, module in names.items())
    imports = [f"from connect_share.{module} import {name} as {name}\n" for module, name in found]
    return "".join(["# Made by ``python -m tests.lab.stub``.\n", *imports, "\n__version__: str\n"])


if __name__ == "__main__":
    STUB.write_text(stub())
