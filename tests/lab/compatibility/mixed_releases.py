"""One group with members of an earlier release and of what is built, as during a rolling update.

A Java group has a worker with each jar, a Python group a worker of the example runtime of each time; plain on shared topics,
and sealed. Both members get changes, see those of the other, are killed in turn, and go on from what the other has written.
Both consoles have to say the same in between. Results on standard output; exit code 0: everything holds, 1: it does not.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from connect_share.errors import ConnectShareError
from connect_share.files import run_folder
from spark_jobs import command_line
from tests.lab.compatibility.releases import BUILT, COMMITS, ROOT, Code, released
from tests.lab.compatibility.result import save_document
from tests.lab.compatibility.shared_topics import Place, SharedTopics
from tests.lab.compatibility.sources import LINE, WAIT_S, Sources
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess, LocalServer
from tests.lab.embedded.rest import ConnectRest
from tests.lab.embedded.worker import ConnectWorker, Sharing, write_properties
from tests.lab.waiting import until

_SEALING: Final = {
    "connect.management.topic.sharing.encryption.keys": "1:" + base64.b64encode(bytes(range(32))).decode(),
    "connect.management.topic.sharing.encryption": "required",
}
_KINDS: Final[tuple[Sharing, ...]] = ("java", "python")
_LISTS: Final = ("connectors", "tasks", "offsets", "statuses")


class RuntimeWorker(LocalServer):
    """A worker of the example runtime of a release."""

    _name = "runtime"

    def __init__(self, code: Code, file: Path) -> None:
        super().__init__()
        self.rest = ConnectRest("")
        self._code = code
        self._file = file

    def _launch(self) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        command = self._code.command("runtime", self._file, "--listen", self.address)
        self.rest = ConnectRest(f"http://{self.address}")
        self._process = ChildProcess(command, log_path=self._file.with_suffix(".log"), cwd=self._code.examples)

    def _await_start(self) -> None:
        self._await(lambda: self.rest.answers("/health"), "in its group", WAIT_S)


class Member:
    """A member of a group, of one release: a Java worker with the jar, or one of the example runtime."""

    def __init__(self, kind: str, code: Code, properties: dict[str, str], folder: Path) -> None:
        self.code = code
        self._file = write_properties(folder / f"{code.name}.properties", properties)
        java = kind == "java"
        self.worker = ConnectWorker(properties, class_path=(code.jar,)) if java else RuntimeWorker(code, self._file)

    @property
    def rest(self) -> ConnectRest:
        """Its REST interface."""
        return self.worker.rest

    def console(self, noun: str) -> Any:
        """Return a list of the console of its release, without the version."""
        words = ("get", noun, "-w", self._file, "--output", "json")
        ran = subprocess.run(self.code.command("connect_share", *words), capture_output=True, text=True, check=False)
        if ran.returncode:
            raise EmbeddedError(f"get {noun} of {self.code.name} ended with {ran.returncode}: {ran.stderr}")
        return {name: value for name, value in json.loads(ran.stdout).items() if name != "_version"}


class Group(Sources):
    """A group of two members, and a model of what it was asked for."""

    def __init__(self, topics: SharedTopics, members: Sequence[Member], folder: Path) -> None:
        super().__init__(topics, folder, folder.name)
        self.members = members

    def append_to_running(self) -> None:
        """Give every running connector another line."""
        for name, source in self.model.items():
            if source.state == "RUNNING":
                self.append(name)

    def await_model(self, *members: Member) -> None:
        """Wait until these members, and the topics, say what was asked for."""
        for each in members or self.members:
            until(
                lambda each=each: self._differences(each),  # type: ignore[misc]
                lambda found: found == [],
                what=f"the member of {each.code.name} to show what was asked for",
                timeout_s=WAIT_S,
            )

    def await_shared_out(self) -> None:
        """Wait until both members run tasks."""
        urls = {each.rest.url.removeprefix("http://") for each in self.members}

        def at() -> set[str]:
            status = self.members[0].rest.call("GET", "/connectors?expand=status", timeout_s=20).values()
            return {task["worker_id"] for each in status for task in each["status"]["tasks"]}

        until(at, lambda found: found == urls, what=f"tasks on {sorted(urls)}", timeout_s=WAIT_S)

    def compare_consoles(self) -> None:
        """Check that the console of the release and that of today say the same; today's may say more."""
        earlier, now = self.members
        for noun in _LISTS:
            before, after = earlier.console(noun), now.console(noun)
            if not _is_part(before, after):
                raise EmbeddedError(
                    f"get {noun} says {before} with {earlier.code.name}, and {after} with what is built"
                )

    def _differences(self, member: Member) -> list[str]:
        found = self.rest_differences(member.rest)
        for name, wanted in self.model.items():
            arrived = self.topics.records_written(wanted.topic)
            if arrived < wanted.due:
                found.append(f"{name}: {arrived} lines of {wanted.due} arrived")
        return found or self._offset_differences(member)

    def _offset_differences(self, member: Member) -> list[str]:
        rows = {each["connector"]: each["offset"] for each in member.console("offsets")["offsets"]}
        wanted = {name: {"position": source.due * len(LINE)} for name, source in self.model.items()}
        return [f"{name} is at {rows.get(name)}" for name, offset in wanted.items() if rows.get(name) != offset]


def _is_part(before: Any, after: Any) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return all(name in after and _is_part(value, after[name]) for name, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_part, before, after))
    return bool(before == after)


class Course:
    """One group of one kind, plain or sealed, from its first member to the last comparison."""

    def __init__(self, place: Place, kind: Sharing, sealed: bool, earlier: Code) -> None:
        self._stack = ExitStack()
        folder = run_folder("mixed-releases")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        topics = SharedTopics(place)
        topics.create()
        self._stack.callback(topics.delete)
        properties = topics.properties(topics.group(kind), kind)
        properties |= _SEALING if sealed else {}
        members = [Member(kind, code, properties, folder) for code in (earlier, BUILT)]
        for each in members:
            self._stack.callback(each.worker.kill)
        self._group = Group(topics, members, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self) -> None:
        """Everything in its order; the first thing that does not hold is raised."""
        group, (earlier, now) = self._group, self._group.members
        earlier.worker.start()
        group.create(earlier.rest, "my.conn")
        group.create(earlier.rest, "connector-a")
        group.await_model(earlier)
        now.worker.start()
        group.create(now.rest, "late-1")
        group.create(now.rest, "gone.for-good")
        group.await_model()
        group.await_shared_out()
        group.change(now.rest, "my.conn", batch_size="1234")
        group.change(earlier.rest, "late-1", batch_size="321")
        group.pause(earlier.rest, "connector-a")
        group.delete(now.rest, "gone.for-good")
        group.append_to_running()
        group.await_model()
        group.compare_consoles()
        for gone, left in ((earlier, now), (now, earlier)):
            gone.worker.kill()
            group.append_to_running()
            group.resume(left.rest, "connector-a")
            group.await_model(left)
            group.pause(left.rest, "my.conn")
            group.create(left.rest, f"made.without.{gone.code.name}")
            group.await_model(left)
            gone.worker.start()
            group.pause(gone.rest, "connector-a")
            group.resume(gone.rest, "my.conn")
            group.await_model()
            group.await_shared_out()
            group.compare_consoles()

    def logs(self) -> str:
        """Return the ends of the members' logs."""
        return "\n".join(f"--- {each.code.name}\n{each.worker.log()[-3000:]}" for each in self._group.members)


def run(options: argparse.Namespace) -> int:
    """Run what is asked for; 0 if everything holds."""
    earlier = released(options.release, ROOT / "build" / "releases")
    results = []
    with LocalBroker() as broker:
        place = Place(broker.bootstrap_servers, prefix="mixed")
        for kind in options.kinds:
            for sealed in (False, True):
                began_s, trouble = time.monotonic(), None
                with Course(place, kind, sealed, earlier) as course:
                    try:
                        course.run()
                    except (ConnectShareError, TimeoutError) as error:
                        trouble = str(error)
                        print(f"{trouble}\n{course.logs()}", file=sys.stderr)
                title = f"{kind}, {'sealed' if sealed else 'plain'}: members of {earlier.name} and of what is built"
                seconds = round(time.monotonic() - began_s)
                results.append({"group": title, "holds": trouble is None, "seconds": seconds, "trouble": trouble})
                print(f"{title}: {trouble or 'holds'}, {seconds} s", flush=True)
    if options.result:
        save_document(options.result, {"release": earlier.name, "groups": results})
    return 0 if all(each["holds"] for each in results) else 1


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.compatibility.mixed_releases", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--release", choices=tuple(COMMITS), default=max(COMMITS), help="of the other members")
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=_KINDS, help="of groups; both by default")
    parser.add_argument("--result", type=Path, metavar="FILE", help="JSON of what holds")
    return command_line.run(parser.parse_args(argv), run)


if __name__ == "__main__":
    command_line.exit_with(main)
