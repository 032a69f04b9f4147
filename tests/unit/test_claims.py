"""The steps that verify what this project claims: run, told, and never passed by being left out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from driver.backend_api.driver import CommandResult
from driver.maintenance.claims import (
    HOME,
    IN_A_CHECKOUT,
    INSTALLED,
    PYTHON,
    Result,
    Step,
    check,
    steps_here,
)
from driver.test_command.invocations import Command
from driver.verification.test_run import counted_run
from tests.support.programs import ROOT, Ran, call
from tools import reproduce
from tools.program import program

GOOD = Step("good", "holds", (PYTHON, "-c", "open('{scratch}/made', 'w')"))
AFTER = Step("after", "sees what came before", (PYTHON, "-c", "open('{scratch}/made')"))
BAD = Step("bad", "fails", (PYTHON, "-c", "print('one\\x1b[2J'); raise SystemExit(3)"))
LACKS = Step("lacks", "needs a tool", (PYTHON, "-c", ""), needs=("no_such_module_at_all",))


def verified(steps: tuple[Step, ...], *words: str) -> Ran:
    def main(argv: Sequence[str]) -> int:
        run = partial(reproduce.verify, steps)
        return program(reproduce.build_parser(), run, argv)

    return call(main, *words)


def test_a_step_is_a_line_with_its_time_and_all_have_to_hold() -> None:
    done = verified((GOOD, AFTER))
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == ["held", "held", "2"]
    assert done.out.endswith("2 of 2 steps hold\n")


def test_a_failed_step_is_exit_1_and_shows_its_last_lines_safely() -> None:
    done = verified((GOOD, BAD, LACKS))
    assert done.code == 1
    assert "    one\\x1b[2J\n" in done.out
    assert done.out.endswith("1 of 3 steps hold\n")


def test_a_step_without_its_tool_is_not_checked_which_is_no_pass() -> None:
    done = verified((GOOD, LACKS))
    assert done.code == 4
    assert "not checked" in done.out
    assert "needs no_such_module_at_all, which is not installed" in done.out


def test_the_document_names_every_step() -> None:
    found = json.loads(verified((GOOD, BAD), "--json").out)
    assert (found["schema"], found["ok"]) == ("tidegate/reproduce/1", False)
    assert [step["result"] for step in found["steps"]] == ["held", "failed"]
    assert found["steps"][1]["why"] == ["one\x1b[2J"]
    assert json.loads(verified((GOOD,), "--json").out)["ok"] is True


def test_steps_can_be_named_and_listed() -> None:
    assert verified((GOOD, BAD), "--step", "good").code == 0
    listed = verified((GOOD, BAD), "--list")
    assert (listed.code, listed.out) == (0, "good: holds\nbad: fails\n")
    wrong = verified((GOOD, BAD), "--step", "goood")
    assert (wrong.code, "did you mean good?" in wrong.err) == (2, True)


def test_steps_go_without_a_wave(tmp_path: Path) -> None:
    done = call(reproduce.main, "w1", "--step", "demo")
    assert (done.code, "without WAVE" in done.err) == (2, True)


def test_a_step_runs_this_copy_with_this_interpreter(tmp_path: Path) -> None:
    asks = "import driver, sys; print(driver.__file__, sys.executable); raise SystemExit(1)"
    (one,) = check([Step("x", "y", (PYTHON, "-c", asks))], tmp_path, os.environ, tmp_path)
    assert one.result is Result.FAILED
    assert one.why == (f"{HOME / 'driver' / '__init__.py'} {sys.executable}",)


def test_a_checkout_claims_tests_types_samples_benches_and_the_demo() -> None:
    assert steps_here() == IN_A_CHECKOUT
    names = {step.name for step in IN_A_CHECKOUT}
    assert names >= {"tests", "types", "attacks", "faults", "benches", "demo", "proof"}
    assert {step.name for step in INSTALLED} >= {"demo", "proof", "state"}
    paths = (word for step in IN_A_CHECKOUT for word in step.command if word.startswith("tests/"))
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("broken", [True, False])
def test_a_test_that_cannot_start_with_a_report_runs_again_without(
    tmp_path: Path, broken: bool
) -> None:
    asked: list[tuple[Command, Mapping[str, str]]] = []

    def once(command: Command, variables: Mapping[str, str]) -> CommandResult:
        asked.append((command, variables))
        why = "error: unrecognized arguments: --junitxml=x" if broken else "1 failed"
        return CommandResult(4, stderr=why)

    words, environment = ("python3", "-m", "pytest", "-q"), {"PATH": os.environ["PATH"]}
    counted_run(words, tmp_path, environment, tmp_path / "out", once)
    assert len(asked) == 1 + broken
    assert (asked[-1] == (words, environment)) == broken
