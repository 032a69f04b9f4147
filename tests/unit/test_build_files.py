"""What make and a package's scripts run for a test command, by their plain text."""

from __future__ import annotations

import json

import pytest

from driver.build_files import included, lines_run, recipe

MAKEFILE = """\
-include config.mk rules/*.mk
PY := python
.PHONY: test lint
all: build
test: prepare | tools
\t@sh check.sh \\
\t  --all
\tpython -m unittest
prepare: ; sh prepare.sh
lint:
\tsh lint.sh
run::
\tpython app.py
"""
SCRIPTS = {
    "test": "npm run unit && node check.js",
    "pretest": "node before.js",
    "unit": "node --test",
    "start": "node server.js",
}


def read(path: str) -> str:
    texts = {"Makefile": MAKEFILE, "web/package.json": json.dumps({"scripts": SCRIPTS})}
    return texts.get(path, "")


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("lint", ["sh lint.sh"]),
        ("run", ["python app.py"]),
        ("nothing", []),
        ("", []),
        ("test", ["sh prepare.sh", "sh check.sh  \t  --all", "python -m unittest"]),
    ],
)
def test_a_recipe_is_the_targets_with_what_it_needs(target: str, lines: list[str]) -> None:
    assert [line.split() for line in recipe(MAKEFILE, target)] == [line.split() for line in lines]


@pytest.mark.parametrize("command", ["make test", ("make", "-s", "test"), "cd . && make test X=1"])
def test_a_makefile_is_read_for_the_target_that_is_made(command: str) -> None:
    told = " ".join(lines_run(command, ".", read))
    assert "check.sh" in told
    assert "prepare.sh" in told
    assert "app.py" not in told


@pytest.mark.parametrize("command", ["npm test", "npm run test", ("yarn", "test"), "npm -s test"])
def test_scripts_are_read_with_those_around_them_and_those_they_run(command: str) -> None:
    told = set(lines_run(command, "web", read))
    assert told == {SCRIPTS["test"], SCRIPTS["pretest"], SCRIPTS["unit"]}


def test_other_commands_run_no_such_lines() -> None:
    assert list(lines_run("pytest", ".", read)) == []
    assert list(lines_run("npm test", ".", read)) == []


def test_included_files_are_known_to_make_only() -> None:
    assert included("make test", ".", read) == ("config.mk", "rules/*.mk")
    assert included("pytest", ".", read) == ()


@pytest.mark.parametrize("text", ["a: b\nb: a\n\tx\n", "a: a\n\tx\n"])
def test_rules_that_need_each_other_end(text: str) -> None:
    assert recipe(text, "a") == ["x"]
