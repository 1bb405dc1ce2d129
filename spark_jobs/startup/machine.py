"""The machine something was measured on, for its report."""

from __future__ import annotations

import os
import platform
from typing import Any

from connect_share.jar.java_runtime import java_command, java_version


def describe_machine() -> dict[str, Any]:
    """Return processors, memory, system, Python and Java; no host name."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = 0
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "processors": len(affinity(0)) if affinity is not None else os.cpu_count(),
        "architecture": platform.machine(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java_version(java_command()),
        "load_1_minute": round(os.getloadavg()[0], 2),
    }
