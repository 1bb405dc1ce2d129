"""Small Java programs, compiled once into the cache with Eclipse's batch compiler.

The compiler is one jar that needs a plain JRE only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from connect_share.files import cache_folder, run_folder
from connect_share.jar.java_runtime import java_command
from tests.lab.embedded.artifacts import class_path, ensure_artifacts, locked
from tests.lab.embedded.broker import DEFAULT_VERSION
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.jvm import QUICK, STEADY, java_arguments, write_log_settings

_TIME_STORES: Final = Path(__file__).with_name("java") / "TimeStores.java"
_COMPILE_S: Final = 180
_RUN_S: Final = 900


def compile_java(
    sources: Sequence[Path], folder: Path, libraries: str, *, release: str = "17", options: Sequence[str] = ()
) -> None:
    """Compile Java files into a folder with the locked batch compiler, which needs a plain JRE only.

    ``release`` is that of the language and the class files, such as ``1.8``. Raise ``EmbeddedError`` with the compiler's
    messages if they do not compile.
    """
    compiler = next(iter(ensure_artifacts("ecj").glob("*.jar")))
    arguments = [f"-{release}", "-encoding", "UTF-8", *options, "-cp", libraries, "-d", str(folder)]
    command = [str(java_command()), *QUICK, "-jar", str(compiler), *arguments, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode != 0:
        raise EmbeddedError(f"{sources[0].name} does not compile: {(done.stdout + done.stderr)[-2_000:]}")


def compiled(sources: Sequence[Path], libraries: str) -> Path:
    """Return the folder with the class files of Java files, compiled once into the cache.

    What is in the class path counts, so another build of a jar is another folder. Errors are as of :func:`compile_java`.
    """
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    for library in libraries.split(os.pathsep):
        digest.update(f"{library} {Path(library).stat().st_mtime_ns}".encode())
    folder = cache_folder() / "classes" / f"{sources[0].stem}-{digest.hexdigest()[:12]}"
    with locked("classes"):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".compile-", dir=folder.parent) as temporary:
                out = Path(temporary) / "out"
                compile_java(sources, out, libraries, options=["-nowarn"])
                shutil.move(str(out), folder)
    return folder


def time_java_stores(arguments: Sequence[object], jars: Sequence[Path]) -> tuple[float, list[dict[str, Any]]]:
    """Run ``TimeStores`` on Kafka's jars and ``jars``; return when (monotonic), and what it printed.

    With worker file and number of starts these are the starts, the first one that of a cold JVM: the seconds ``config_s``,
    ``status_s`` and ``offsets_s``, in sum ``total_s``, and ``cpu_s``, the CPU time of all threads of the JVM meanwhile;
    ``ready_at_s`` is of the same monotonic clock as the JVM's begin. With worker file, number of puts, and puts before them
    that are not counted, these are the stores, and ``seconds`` of puts until they are read back. Raise ``EmbeddedError`` if
    it failed.
    """
    libraries = ensure_artifacts(f"kafka-{DEFAULT_VERSION}")
    classes = compiled([_TIME_STORES], class_path(libraries))
    folder = run_folder("java")
    try:
        command = java_arguments(
            libraries,
            _TIME_STORES.stem,
            list(map(str, arguments)),
            options=(*STEADY, "-Xmx2g"),
            log_settings=write_log_settings(folder, "error"),
            more_classes=[classes, *jars],
        )
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise EmbeddedError(f"{_TIME_STORES.stem} did not end within {_RUN_S:g} s") from exc
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        raise EmbeddedError(f"{_TIME_STORES.stem} ended with {done.returncode}: {(done.stdout + done.stderr)[-2_000:]}")
    return began, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
