"""``get ... --watch``: the same list again after each change of the topics, of which only new records are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from connect_share.cli.listings import Listing
from connect_share.cli.question import Question
from connect_share.console import InterruptionError, Output
from connect_share.contents.groups import Contents, WriteTimes
from connect_share.errors import ConnectShareError, TopicRecreatedError
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import CONSOLE_CLIENT_ID

WATCH_S: Final = 2.0


class _Reading:
    """Topics that are read on."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self.begin()

    def begin(self) -> None:
        """Read all again the next time: after an error, a part of the records may be folded."""
        self._times = WriteTimes()
        self._topics = self._question.reading(self._times)
        self._is_first = True

    def changed(self, admin: Admin) -> Contents | None:
        """Return the contents if something was written, and the first time."""
        if not self._topics.read_on(admin) and not self._is_first:
            return None
        self._is_first = False
        contents = self._topics.contents()
        contents.times = self._times
        return contents


def watch(question: Question, listed: Callable[[Contents], Listing], out: Output, *, every_s: float) -> int:
    """Show a list, and show it again after each change until Ctrl-C; return the exit code.

    Changes are looked for every ``every_s`` seconds. A broker that does not answer for a while is asked again.

    Raises:
        ConnectShareError: the topics cannot be read the first time, or will not be readable later either.
    """
    try:
        with Admin(question.topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=question.timeout_s) as admin:
            _watch(question, listed, out, admin, every_s)
    except KeyboardInterrupt:
        pass  # the way in which this command ends
    return InterruptionError.exit_code


def _watch(
    question: Question, listed: Callable[[Contents], Listing], out: Output, admin: Admin, every_s: float
) -> None:
    reading = _Reading(question)
    contents = reading.changed(admin)
    assert contents is not None  # noqa: S101 - the first time
    question.refuse_unknown(contents)
    for note in contents.notes():
        out.note(note)
    shown = trouble = None
    while True:
        if contents is not None:
            listing = listed(contents)
            if listing.members != shown:
                shown = listing.members
                listing.show_again(out)
        time.sleep(every_s)
        try:
            contents = reading.changed(admin)
            trouble = None
        except ConnectShareError as error:
            if not error.retriable and not isinstance(error, TopicRecreatedError):
                raise
            if trouble != str(error):
                trouble = str(error)
                out.note(f"{trouble}; all is read again in {every_s:g} s")
            reading.begin()
            contents = None
