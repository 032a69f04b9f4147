"""Files that a test command starts or loads by way of a program that starts others."""

from __future__ import annotations

import pytest

from driver.policy.started_files import files_started
from driver.test_command.build_scripts import included


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("pytest -cci.ini", "ci.ini"),
        ("pytest -ptools.plugin", "tools/plugin.py"),
        ("uv run pytest -c ci.ini", "ci.ini"),
        ("poetry run python check.py", "check.py"),
        ("uv run ./run.sh", "run.sh"),
        ("coverage run check.py", "check.py"),
        ("coverage run -m pytest -c ci.ini", "ci.ini"),
        ("python -m coverage run -m pytest -p tools.plugin", "tools/plugin.py"),
        ("npx mocha -r ./setup.js", "setup.js"),
    ],
)
def test_what_a_starter_starts_is_started(command: str, path: str) -> None:
    assert path in files_started(command, ".", lambda _: "")
    assert path in files_started(tuple(command.split()), ".", lambda _: "")


def test_a_makefile_is_read_by_way_of_a_starter() -> None:
    texts = {"Makefile": "include rules/*.mk\ntest:\n\t./check.sh\n"}
    command = "uv run make test"
    assert "check.sh" in files_started(command, ".", lambda path: texts.get(path, ""))
    assert included(command, ".", lambda path: texts.get(path, "")) == ("rules/*.mk",)
