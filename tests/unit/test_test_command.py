"""A test command whose exit code could hide a red test is refused; an honest one never is."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from driver.test_command.exit_code_rules import command_problems
from driver.test_command.shell_lexer import UnreadableError, split
from driver.test_command.shell_parser import parse, simple_commands

HONEST: list[str | list[str]] = [
    "pwd; pytest",
    "echo $(date); pytest",
    "echo `git rev-parse HEAD`; pytest",
    "[ -z X ] || echo y; pytest",
    "rm -rf build; python --version; pytest",
    "pytest",
    "cd sub && npm test",
    'python -m pytest tests/ -k "a or b" -q',
    "FOO=1 make test",
    "npm test -- --run",
    "pytest -k 'a || true'",
    'pytest -k "a; true"',
    r"grep a\|b file",
    "pytest tests/a.py && pytest tests/b.py",
    "bash -eo pipefail -c 'pytest | tee log'",
    "bash -o pipefail -c 'pytest | tee log'",
    "bash -euo pipefail -c 'cd x; pytest | cat'",
    "pytest | tee log",
    "set -e; npm ci; npm test",
    "set -euo pipefail\nnpm ci\nnpm test\n",
    "sh -ec 'npm ci; npm test'",
    "cd sub; npm test",
    "export X=1; cd sub; npm test",
    "echo start; npm test",
    ". ./venv/bin/activate; pytest",
    "mkdir -p out; pytest",
    "npm run serve & npm test",
    "npm ci && npm test # | tail",
    "npm ci \\\n  && npm test",
    "(cd sub && npm test)",
    "{ npm ci && npm test; }",
    "pytest || exit 1",
    "pytest || false",
    "pytest || { echo failed; exit 1; }",
    "pytest || exit",
    "pytest >log 2>&1",
    "pytest 2>/dev/null",
    "pytest && echo done",
    "npm ci || npm install && npm test",
    '[ -n "$CI" ] || npm test',
    "set -e; [ -d node_modules ] || npm ci; npm test",
    "test -f x && pytest",
    "! grep -rn TODO src",
    "if [ -f a ]; then pytest a; else pytest; fi",
    "for f in tests/*.sh; do sh $f || exit 1; done",
    "set -e; for f in a b; do pytest $f; done",
    'test "$(git rev-parse HEAD)" = abc',
    "diff <(./prog) expected",
    "timeout 60 pytest -q",
    "pytest; status=$?; exit $status",
    'pytest; code=$?; echo end; exit "${code}"',
    "env -u X FOO=1 pytest",
    'python -c "import x; x.check()"',
    "python -c 'import sys; sys.exit(x() or 0)'",
    "make -C sub test",
    "while read x; do y; done < f",
    "case $X in a) pytest;; esac",
    "cat <<E\nx | y || true\nE",
    "echo 'unclosed",
    "f() { pytest; }; f",
    "trap 'kill %1' INT; pytest",
    ["pytest", "||", "true"],
    ["python", "-c", "a = 1; b = 2 | 3"],
    ["sh", "check.sh"],
    ["bash", "-c", "cd x && pytest"],
    ["bash", "-e", "-o", "pipefail", "-c", "a; b | c"],
    ["find", ".", "-exec", "cat", "{}", ";"],
    ["true"],
    "true",
    "",
]

HIDING: list[tuple[str | list[str], str]] = [
    ("pytest || true", "|| true"),
    ("pytest||true", "|| true"),
    ("pytest || :", "|| :"),
    ("pytest || exit 0", "|| exit 0"),
    ("pytest || echo failed", "|| echo failed"),
    ("pytest || (exit 0)", "makes a red test green"),
    ("pytest || { echo x; true; }", "makes a red test green"),
    ("pytest \\\n  || true", "|| true"),
    ("pytest ||\n true", "|| true"),
    ("(pytest || true)", "|| true"),
    ("npm ci && npm test || true", "|| true"),
    ("cd a && (pytest || true) && cd b", "|| true"),
    ("pytest >/dev/null 2>&1 || true", "|| true"),
    ("pytest &>/dev/null || npm test", "decides the exit code"),
    ("pytest || pytest --lf", "decides the exit code"),
    ("pytest; true", "`pytest` is lost"),
    ("pytest; pwd", "`pytest` is lost"),
    ("[ -f a ] && pytest; true", "is lost"),
    ("echo $(echo $(pytest))", "is green whatever"),
    ("echo $(date; pytest)", "is green whatever"),
    ("pytest; exit 0", "`pytest` is lost"),
    ("pytest;:", "`pytest` is lost"),
    ("pytest; echo $?", "`pytest` is lost"),
    ("pytest a; pytest b", "join them with `&&`"),
    ("pytest a; pytest b; s=$?; exit $s", "`pytest a` is lost"),
    ("pytest; s=$?; exit $t", "`pytest` is lost"),
    ("pytest\ntrue", "`pytest` is lost"),
    ("pytest\n\n\nexit 0\n", "`pytest` is lost"),
    ("pytest\r\ntrue\r\n", "`pytest` is lost"),
    ("cd a; pytest; true", "`pytest` is lost"),
    ("(pytest; true)", "`pytest` is lost"),
    ("{ pytest; true; }", "`pytest` is lost"),
    ("a && (pytest; true)", "`pytest` is lost"),
    ("pytest &", "does not wait for"),
    ("pytest&", "does not wait for"),
    ("(pytest &)", "does not wait for"),
    ("pytest & true", "is lost"),
    ("pytest & wait", "is lost"),
    ("set -e; pytest &", "does not wait for"),
    ("set +e; pytest; true", "set +e"),
    ("set -e; set +e; pytest; x", "set +e"),
    ("set +o pipefail; pytest | tee log", "set +o pipefail"),
    ("! pytest", "turns red into green"),
    ("cd a && ! pytest", "turns red into green"),
    ("if pytest; then echo ok; fi", "an `if` is green"),
    ("if ! pytest; then echo no; fi", "an `if` is green"),
    ("for f in a b; do pytest $f; done", "last round of a loop"),
    ("trap 'exit 0' EXIT; pytest", "trap on EXIT"),
    ("trap 'exit 0' 0; pytest", "trap on EXIT"),
    ('echo "$(pytest)"', "is green whatever"),
    ("echo `pytest`", "is green whatever"),
    ("eval 'pytest || true'", "|| true"),
    ("bash -c 'pytest | tail -1'", "a pipe's exit code"),
    ('sh -c "pytest || true"', "|| true"),
    ("env X=1 sh -c 'pytest; true'", "`pytest` is lost"),
    ("timeout 60 bash -c 'pytest | tail'", "a pipe's exit code"),
    (["sh", "-c", "pytest || true"], "|| true"),
    (["bash", "-c", "pytest | tail"], "a pipe's exit code"),
    (["/bin/bash", "-ec", "pytest | tail"], "a pipe's exit code"),
    (["bash", "+o", "pipefail", "-c", "pytest | tail"], "a pipe's exit code"),
    (["bash", "-lc", "pytest; true"], "`pytest` is lost"),
    (["env", "A=1", "dash", "-c", "pytest &"], "does not wait for"),
    (["bash", "-o", "pipefail", "-c", "set +o pipefail; a | b"], "set +o pipefail"),
]


@pytest.mark.parametrize("command", HONEST, ids=str)
def test_an_honest_command_is_never_refused(command: str | list[str]) -> None:
    assert command_problems(command) == ()


@pytest.mark.parametrize(("command", "reason"), HIDING, ids=str)
def test_what_can_hide_a_red_test_is_refused_with_the_remedy(
    command: str | list[str], reason: str
) -> None:
    problems = command_problems(command)
    assert any(reason in problem for problem in problems)
    assert all(":" in problem for problem in problems)


def test_a_pipe_is_refused_where_no_shell_knows_pipefail() -> None:
    assert command_problems("pytest | tee log") == ()
    (problem,) = command_problems("pytest | tee log", pipefail=False)
    assert "bash -o pipefail -c" in problem


def test_each_problem_is_said_once() -> None:
    assert len(command_problems("a || true; b || true; c")) == 3


def test_all_problems_are_said_at_once() -> None:
    assert len(command_problems("a | b || true; c &", pipefail=False)) >= 3


ONLY_SOME_RED_RUNS = (
    *("pytest a; pytest b", "pytest || pytest --lf", "pytest &>/dev/null || npm test"),
    *("set -e; set +e; pytest; x", "set +o pipefail; pytest | tee log", "cd a && ! pytest"),
    *("for f in a b; do pytest $f; done", "a && (pytest; true)", "pytest\r\ntrue\r\n"),
    *("cd a && (pytest || true) && cd b", "pytest a; pytest b; s=$?; exit $s"),
)
SHELL = shutil.which("bash")
# What reddens or greens by itself; each command of the tables runs with these in its place.
FAILING = ("pytest", "npm", "a", "b", "c", "x", "make", "git", "diff", "grep", "python")


def really_red(command: str, folder: Path) -> int:
    """The exit code when every program that could be a test fails."""
    for name in FAILING:
        program = folder / name
        program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    argv = (str(SHELL), "-o", "pipefail", "-c", command)
    done = subprocess.run(
        argv, cwd=folder, env={"PATH": path}, capture_output=True, timeout=20, check=False
    )
    return done.returncode


@pytest.mark.sampled(10)
@pytest.mark.skipif(SHELL is None, reason="needs bash")
@pytest.mark.parametrize(
    "command",
    [one for one, _ in HIDING if isinstance(one, str) and one not in ONLY_SOME_RED_RUNS],
)
def test_what_is_refused_really_is_green_though_all_is_red(command: str, tmp_path: Path) -> None:
    assert really_red(command, tmp_path) == 0


@pytest.mark.sampled(6)
@pytest.mark.skipif(SHELL is None, reason="needs bash")
@pytest.mark.parametrize(
    "command",
    [one for one in HONEST if isinstance(one, str) and one.startswith(("pytest", "set -e", "npm"))],
)
def test_what_is_not_refused_really_is_red_when_all_is_red(command: str, tmp_path: Path) -> None:
    assert really_red(command, tmp_path) != 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", ["a", "b"]),
        ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
        (r'a\ b "c\"d" \|', ["a b", 'c"d', "|"]),
        ("a;b&&c||d|e&", ["a", ";", "b", "&&", "c", "||", "d", "|", "e", "&"]),
        ("a 2>&1 >b", ["a", ">&", "1", ">", "b"]),
        ("a $(b | c) `d|e` ${f:-g h}", ["a", "$(b | c)", "`d|e`", "${f:-g h}"]),
        ("a # b | c", ["a"]),
        ("a#b", ["a#b"]),
        ("", []),
    ],
)
def test_words_and_operators_are_a_shells(text: str, words: list[str]) -> None:
    assert [token.text for token in split(text)] == words


@pytest.mark.parametrize("text", ["'a", '"a', "a\\", "$(a", "`a", "cat <<E\nE", "$'a'"])
def test_what_is_not_understood_is_not_judged(text: str) -> None:
    with pytest.raises(UnreadableError):
        split(text)
    assert command_problems(text) == ()


@pytest.mark.parametrize("text", [")", "a)", "(a", "{ a", "if a; then b", "a >", "&& a", "a &&"])
def test_a_broken_line_is_not_judged(text: str) -> None:
    with pytest.raises(UnreadableError):
        parse(text)


def test_every_program_of_a_line_is_found() -> None:
    line = "A=1 a | b && (c; d) || if e; then f; else g; fi; for x in y; do h; done"
    assert [one.name for one in simple_commands(parse(line))] == list("abcdefgh")


@pytest.mark.parametrize("part", ["(", "{ ", "$(", '"$(', "if ", "eval ", "env ", "! ", "a|", "`"])
def test_what_nobody_wrote_by_hand_ends_quickly_and_without_an_error(part: str) -> None:
    assert isinstance(command_problems(part * 3000 + "a"), tuple)


def test_no_text_makes_the_reader_fail() -> None:
    chance = random.Random(7)
    parts = ["a", " ", "'", '"', "\\", "$(", ")", "(", "{ ", "}", "|", "||", "&&", "&", ";", "\n",
             "if ", "then ", "fi", "for ", "do ", "done", "! ", "sh -c ", "set +e", ">", "2>&1",
             "#", "`", "${", "true", "exit 0", "trap ", "eval "]  # fmt: skip
    for _ in range(3000):
        text = "".join(chance.choices(parts, k=chance.randrange(1, 14)))
        assert isinstance(command_problems(text), tuple), text
