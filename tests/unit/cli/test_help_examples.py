"""Help of both programs: as it was, with examples everywhere, and every example is a command line that its program takes."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_share.cli.__main__ import build_parser as console_parser
from connect_share.cli.__main__ import main
from migrator.cli.__main__ import build_parser as migrator_parser

PARSERS = {"connect-share": console_parser(), "connect-share-migrate": migrator_parser()}


HELP = Path(__file__).parents[2] / "vectors" / "help"


def with_nouns(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of all it has below."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield from with_nouns(each)


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of commands that run, not of verbs that only have nouns."""
    return (each for each in with_nouns(parser) if each._subparsers is None)


COMMANDS = {each.prog: each for parser in PARSERS.values() for each in commands(parser)}


PROGS = {each.prog.replace(" ", "-"): each.prog for each in with_nouns(PARSERS["connect-share"])}


@pytest.mark.parametrize("path", sorted(HELP.glob("*.txt")), ids=lambda path: path.stem)
def test_help_is_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*PROGS[path.stem].split()[1:], "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert normal(captured.out) == normal(path.read_text("utf-8"))


def normal(text: str) -> str:
    """Take out what differs between versions of argparse: repeated metavars and where lines break."""
    return " ".join(re.sub(r"(-[a-zA-Z]) [A-Z:,.=]+, (--)", r"\1, \2", " ".join(text.split())).split())


def examples(parser: argparse.ArgumentParser) -> list[list[str]]:
    """Return the command lines of our programs that a help text shows."""
    text = (parser.epilog or "").split("examples:\n")[-1].split("\n\n")[0].replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [words for words in lines if words and words[0] in PARSERS]


@pytest.mark.parametrize("prog", [*PARSERS, *COMMANDS])
def test_examples_are_command_lines(prog: str) -> None:
    parser = PARSERS.get(prog) or COMMANDS[prog]
    assert "examples:" in parser.format_help()
    found = examples(parser)
    assert any(" ".join(words).startswith(prog) for words in found)
    for program, *words in found:
        ends = [words.index(word) for word in (">", "|") if word in words]
        arguments = words[: min(ends)] if ends else words
        assert PARSERS[program].parse_args(arguments)


@pytest.mark.parametrize(
    ("prog", "module"), [("connect-share", "connect_share"), ("connect-share-migrate", "migrator")]
)
def test_the_manual_has_every_command(prog: str, module: str, tmp_path: Path) -> None:
    page = tmp_path / "page.1"
    program = Path(sys.executable).with_name("argparse-manpage")
    where = ["--module", f"{module}.cli.__main__", "--function", "build_parser", "--prog", prog]
    subprocess.run([program, *where, "--output", page], check=True, timeout=60)
    titles = {title.replace("\\-", "-") for title in re.findall(r"COMMAND \\fI\\,'(.*?)'", page.read_text("utf-8"))}
    assert titles >= {name for name, parser in COMMANDS.items() if name.startswith(f"{prog} ")}
