"""What make and a package's scripts run for a test command, by their plain text."""

from __future__ import annotations

import json

import pytest

from driver.test_command.build_scripts import Made, included, lines_run, made_by, recipe

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
    told = " ".join(line for line, _ in lines_run(command, ".", read))
    assert "check.sh" in told
    assert "prepare.sh" in told
    assert "app.py" not in told


@pytest.mark.parametrize("command", ["npm test", "npm run test", ("yarn", "test"), "npm -s test"])
def test_scripts_are_read_with_those_around_them_and_those_they_run(command: str) -> None:
    told = {line for line, folder in lines_run(command, "web", read) if folder == "web"}
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


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("make", Made(".", "", ("",))),
        ("make -s -j4 a b X=1", Made(".", "", ("a", "b"))),
        ("make -C sub test", Made("sub", "", ("test",))),
        ("make -Csub -frules test", Made("sub", "rules", ("test",))),
        ("make --directory=sub --file rules", Made("sub", "rules", ("",))),
        ("pytest", None),
    ],
)
def test_a_call_of_make_says_where_and_what(command: str, made: Made | None) -> None:
    assert made_by(tuple(command.split()), ".") == made


def test_lines_are_run_in_the_folder_that_make_is_sent_to() -> None:
    texts = {"sub/rules": "test:\n\tsh check.sh\n"}
    told = list(lines_run("make -C sub -f rules test", ".", lambda path: texts.get(path, "")))
    assert told == [("sh check.sh", "sub")]
