"""Files that hold records, readable by their owner only and never half-written, and the progress of long steps."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, Protocol, TypeVar

from connect_share.errors import AlreadyAppliedError, ConnectShareError, UsageError

LARGEST_BYTES: Final = 256 << 20
"""The most that is read of a file about everything that a command writes, or about all partitions of a cluster."""


def members_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a file of JSON that people write, as ``object_pairs_hook``."""
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("an object has two members of the same name")
    return found


def write_private_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` by ``data`` as one step, private by default: a reader sees the old file or the new one.

    Raises:
        OSError: it cannot be written; what was there before is untouched.
    """
    with replacing(path, mode) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[io.BufferedRandom]:
    """Open a file that replaces ``path`` as one step when the block ends; raises as :func:`write_private_file`."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    temporary, file = Path(name), os.fdopen(handle, "w+b")
    try:
        yield file
        file.flush()
        os.fsync(handle)
        temporary.chmod(mode)
        if os.name == "nt":  # Windows replaces no open file; elsewhere a lock on it holds until it has its name
            file.close()
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):  # what is still buffered may not fit
            file.close()
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_writable_folder(path: Path) -> bool:
    """Return whether files can be made and replaced in a folder, as far as that is known before."""
    return os.access(path, os.W_OK | os.X_OK) and path.is_dir()


@contextlib.contextmanager
def writing(path: Path, error_of: Callable[[str], ConnectShareError] = ConnectShareError) -> Iterator[None]:
    """Raise as an error of ours that a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise error_of(f"{path} cannot be written ({error.strerror}): make room or choose another place") from error


def open_regular(path: Path, access: int = os.O_RDONLY) -> io.BufferedReader:
    """Open a file to read it, but no pipe and no device: reading those may wait for ever.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    other = OSError(errno.EINVAL, "it is no regular file", str(path))
    if not stat.S_ISREG(path.stat().st_mode):  # to be opened is enough for some devices
        raise other
    handle = os.open(path, access | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise other
    return os.fdopen(handle, "rb")


def read_bounded(path: Path, most_bytes: int = 16 << 20, *, regular: bool = False) -> bytes:
    """Return the content of a file or pipe, ``regular``: of no pipe; ``OSError``: not readable, or longer than that."""
    with open_regular(path) if regular else path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {most_bytes >> 20} MiB")
    return data


def sync_folder(folder: Path) -> None:
    """Write the folder to disk, so that a rename in it survives a crash of the machine."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows opens no folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(file: IO[bytes] | int) -> None:
    """Lock an open file or folder for this process, until it is closed; NFS locks only what is open for writing.

    Raises:
        OSError: another process has locked it, or its file system cannot.
        UsageError: this system has no such locks.
    """
    try:
        import fcntl
    except ImportError:
        raise UsageError("files cannot be locked on this system: run it on Linux or macOS") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_to_lock(path: Path) -> io.BufferedReader:
    """Open a file that is to be read and locked, for writing if that may be; raises as :func:`open_regular`."""
    try:
        return open_regular(path, os.O_RDWR)
    except OSError:
        return open_regular(path)


def lock_alone(file: IO[bytes] | int, doing: str) -> None:
    """Lock as :func:`lock`; ``doing`` says what another process does that has locked it.

    Raises:
        AlreadyAppliedError: another process has.
        UsageError: the file system, or the system, has no such locks.
    """
    try:
        lock(file)
    except BlockingIOError:
        raise AlreadyAppliedError(f"another process {doing} right now") from None
    except OSError as error:
        raise UsageError(
            f"whether another process {doing} is not known: its file system does not lock it ({error.strerror}): use another"
        ) from error


T = TypeVar("T")

_REPORT_EVERY: Final = 1_000
"""Records between two reports: one for each record would take longer than the work."""


class Progress(Protocol):
    """Where a long step reports how far it is."""

    def phase(self, what: str, total: int) -> None:
        """Begin a phase of ``total`` offsets; fewer records may come."""

    def advance(self, records: int) -> None:
        """Report further records."""


class Silent:
    """Progress that is not shown."""

    def phase(self, what: str, total: int) -> None:
        """Ignore the phase."""

    def advance(self, records: int) -> None:
        """Ignore the records."""


SILENT: Final = Silent()


@contextlib.contextmanager
def repeated(every_s: float, step: Callable[[], object]) -> Iterator[None]:
    """Call ``step`` every so many seconds while the block runs, in a thread whose last call is awaited."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            step()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def counted(items: Iterable[T], advance: Callable[[int], None] | None) -> Iterator[T]:
    """Yield the items and report their number in steps."""
    if advance is None:
        yield from items
        return
    seen = 0
    for seen, item in enumerate(items, 1):
        if seen % _REPORT_EVERY == 0:
            advance(_REPORT_EVERY)
        yield item
    advance(seen % _REPORT_EVERY)


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/connect-share``, by default ``~/.cache/connect-share``."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "connect-share"


_OWNER: Final = ".owner"
_held: Final[dict[Path, int]] = {}
"""Descriptors, not file objects: they stay open until the process ends."""
_held_lock: Final = threading.Lock()


def run_folder(name: str) -> Path:
    """Return a new folder for one run of a broker, worker or session; the caller removes it.

    Folders of processes that were killed before they could do so are removed first.
    """
    parent = cache_folder() / "run"
    parent.mkdir(parents=True, exist_ok=True)
    with _held_lock:
        _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    # Held for as long as this process lives; renamed once it is locked, so that no process finds it without.
    fresh = folder / f"{_OWNER}.new"
    owner = os.open(fresh, os.O_WRONLY | os.O_CREAT, 0o600)
    lock(owner)
    with _held_lock:
        fresh.rename(folder / _OWNER)
        _held[folder] = owner
    return folder


def _remove_abandoned(parent: Path) -> None:
    for folder in [folder for folder in _held if not folder.exists()]:
        os.close(_held.pop(folder))
    for owner_file in parent.glob(f"*/{_OWNER}"):
        if owner_file.parent in _held:
            continue
        # Never made anew: a process that is just removing its folder would find it not empty.
        with contextlib.suppress(OSError), open_to_lock(owner_file) as owner:
            lock(owner)  # fails while its process lives
            shutil.rmtree(owner_file.parent, ignore_errors=True)
