"""Which tests are near a change, and which of them are run, in a small tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.near import select, steps_to_tests

FILES = {
    "connect_share/__init__.py": "def __getattr__(name): ...\n",
    "connect_share/__init__.pyi": "from connect_share.store import Store as Store\n",
    "connect_share/model/keys.py": "",
    "connect_share/store.py": "from connect_share import keys\n",
    "connect_share/page.py": "TEMPLATE = 'page.j2'\n",
    "connect_share/page.j2": "",
    "migrator/copy.py": "from connect_share import Store\n",
    "migrator/apply.py": "def apply():\n    import migrator.copy\n",
    "tests/support/records.py": "from connect_share.model.keys import Key\n",
    "tests/unit/conftest.py": "",
    "tests/unit/test_keys.py": "from connect_share.model.keys import Key\n",
    "tests/unit/test_names.py": "import connect_share\n",
    "tests/unit/test_page.py": "from connect_share import page\n",
    "tests/unit/test_vectors.py": 'PATH = ROOT / "vectors" / name\n',
    "tests/broker/test_store.py": "from connect_share import Store\n",
    "tests/broker/test_copy.py": "from migrator.copy import copy\n",
    "tests/broker/test_apply.py": "from migrator.apply import apply\n",
    "tests/broker/test_records.py": "from tests.support.records import record\n",
    "tests/vectors/keys.json": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        # Over three imports, of which the package that hands on a name is none; apply.py is a fourth.
        (
            "connect_share/model/keys.py",
            {
                "unit/test_keys.py": 1,
                "unit/test_names.py": 1,
                "broker/test_store.py": 2,
                "broker/test_records.py": 2,
                "broker/test_copy.py": 3,
            },
        ),
        ("migrator/copy.py", {"broker/test_copy.py": 1, "broker/test_apply.py": 2}),
        ("tests/support/records.py", {"broker/test_records.py": 1}),
        ("tests/unit/test_keys.py", {"unit/test_keys.py": 0}),
        ("tests/unit/conftest.py", {f"unit/test_{name}.py": 1 for name in ("keys", "names", "page", "vectors")}),
        ("connect_share/page.j2", {"unit/test_page.py": 2}),
        ("tests/vectors/keys.json", {"unit/test_vectors.py": 1}),
        ("connect_share/gone.py", {}),
    ],
)
def test_near_are_tests_that_import_what_changed(tree: Path, changed: str, near: dict[str, int]) -> None:
    assert steps_to_tests(tree, {changed}) == {f"tests/{test}": steps for test, steps in near.items()}


def test_unit_tests_are_run_first_and_others_only_if_they_changed() -> None:
    steps = {"tests/unit/a.py": 2, "tests/unit/b.py": 1, "tests/broker/c.py": 1, "tests/broker/d.py": 0}
    assert select(steps, dict.fromkeys(steps, 10.0), 30) == (
        ["tests/unit/b.py", "tests/unit/a.py", "tests/broker/d.py"],
        ["tests/broker/c.py"],
    )
    # What would take too long is left out, and what is shorter is run.
    seconds = dict.fromkeys(steps, 31.0) | {"tests/unit/a.py": 30.0}
    assert select(steps, seconds, 30)[0] == ["tests/unit/a.py"]
