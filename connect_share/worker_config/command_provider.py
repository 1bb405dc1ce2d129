"""``${command:name}`` in worker files: what a command prints, such as a client of a key management service.

::

    config.providers=command
    config.providers.command.class=connect_share.CommandConfigProvider
    config.providers.command.param.keys=/usr/bin/vault kv get -field=keys secret/connect

Only what the worker file says is run, without a shell. Nothing of the command line or of what it prints is in an error.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from connect_share.errors import ConfigError

COMMAND_PROVIDER_CLASS: Final = "connect_share.CommandConfigProvider"
_TIMEOUT_S: Final = 10.0
_LARGEST_BYTES: Final = 65_536


def command_line(text: str) -> list[str]:
    """Return the program and its arguments, parted and quoted as in a shell, which expands nothing.

    Raises:
        ConfigError: a quotation is not closed, or there is nothing.
    """
    try:
        found = shlex.split(text)
    except ValueError:
        raise ConfigError("the command line has a quotation or an escape that does not end") from None
    if not found:
        raise ConfigError("the command line is empty")
    return found


def from_command(path: str, key: str, parameters: Mapping[str, str]) -> str | None:
    """Return what the command under the parameter of that name prints, without one newline at its end.

    Raises:
        ConfigError: it cannot be run, fails, takes more than ten seconds, prints nothing, too much, or no text.
    """
    text = parameters.get(key)
    if path or text is None:
        return None
    try:
        printed = _printed(command_line(text)).decode()
    except ConfigError as exc:
        raise ConfigError(f"{key}: {exc}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{key}: what the command printed is not UTF-8 text") from None
    printed = printed.removesuffix("\n")
    if not printed:  # without keys a worker would write plain values
        raise ConfigError(f"{key}: the command printed nothing")
    return printed


def _printed(arguments: list[str]) -> bytes:
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        # In a session of its own, so that what it starts can be ended with it.
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as exc:
        raise ConfigError(f"the command cannot be run: {exc.strerror}") from None
    except ValueError:
        raise ConfigError("the command line has a character that no argument can have") from None
    with process:
        try:
            printed = _read(process, deadline_s)
            code = process.wait(max(0.0, deadline_s - time.monotonic()))
        except BaseException as exc:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(exc, subprocess.TimeoutExpired):
                raise ConfigError(f"the command did not end within {_TIMEOUT_S:g} s") from None
            raise
    if code:
        raise ConfigError(f"the command failed with exit code {code}")
    return printed


def _read(process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
    """Return all that is printed until no process can print any more; ``TimeoutExpired`` if that is too late."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    descriptor, printed = process.stdout.fileno(), b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
        part = os.read(descriptor, _LARGEST_BYTES)
        if not part:
            return printed
        printed += part
        if len(printed) > _LARGEST_BYTES:
            raise ConfigError(f"the command printed more than {_LARGEST_BYTES:,} bytes")
    raise subprocess.TimeoutExpired([], _TIMEOUT_S)
