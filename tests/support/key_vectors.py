"""The key vectors that both suites read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).parents[1] / "vectors" / "keys.json"
VECTORS: Final[dict[str, list[Any]]] = json.loads(PATH.read_bytes())


def bytes_of(entry: dict[str, str | None], name: str) -> bytes | None:
    """Return the key called ``name``, which is in the entry as text or as ``<name>_hex``."""
    digits = entry.get(f"{name}_hex")
    if digits is not None:
        return bytes.fromhex(digits)
    text = entry.get(name)
    return None if text is None else text.encode()
