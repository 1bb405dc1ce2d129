"""docs/remedies.md has every command that the product prints, and each has a test that runs it."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import command_line
from connect_share.worker_config import ClientSettings
from tests.lab.house.printed import ROOT, commands_made_elsewhere, printed_commands
from tests.support.printed import in_bash, rows


def test_every_printed_command_is_made_in_one_place() -> None:
    assert commands_made_elsewhere() == []


def test_the_page_has_every_printed_command() -> None:
    assert sorted(row.command for row in rows()) == sorted(printed_commands())


def test_each_command_has_tests_that_run_it() -> None:
    for row in rows():
        assert row.tests, row.command
        for each in row.tests:
            file, name = each.split("::")
            tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
            functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
            (test,) = [node for node in functions if node.name == name.partition("[")[0]]
            assert "printed" in {argument.arg for argument in test.args.args}, each


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), max_size=3))
def test_a_shell_reads_the_words_that_were_meant(words: list[str]) -> None:
    text = command_line("connect-share", *words)
    assert text.isprintable()
    assert in_bash(text) == ["connect-share", *words]


def test_commands_are_given_the_login() -> None:
    client = ClientSettings({"bootstrap.servers": "b:1", "security.protocol": "sasl_ssl"})
    assert client.kafka_tool("kafka-acls", "--list") == (
        "kafka-acls.sh --bootstrap-server b:1 --command-config client.properties --list"
    )
    assert client.reached_by == ("-B", "b:1", "--profile", "NAME")
