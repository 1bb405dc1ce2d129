"""The jar that gives topic sharing to unmodified Java workers (2.8 to 4.4), and what a worker file needs for it.

The Java source is in ``java/``; ``python -m tests.lab.plugin_jar`` builds the jar, reproducibly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

INTERCEPTOR_CLASS: Final = "connectshare.TopicSharingInterceptor"
JAR_NAME: Final = "connect-share-topic-sharing.jar"
"""Has no version in it: a second jar beside the first would be an old class in front of the new one."""

JAVA_SOURCES: Final = Path(__file__).with_name("java")


def jar_path() -> Path:
    """Return the path of the jar of this installation."""
    return Path(__file__).with_name(JAR_NAME)
