"""Verifies what this project claims: steps that run its tests, types, benches and demo. In an
installed copy, without tests, it runs the demo and looks at what came of it.

A step is data. A step whose tool is missing is `not checked`, which is no pass.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from driver.execution.process_marks import new_key, new_mark
from driver.execution.processes import Command, Processes
from state_store.values.lazy_dataclass import dataclass

HOME = Path(__file__).resolve().parents[2]
HERE, PYTHON = "{scratch}", "{python}"
_SHOWN = 20  # last lines of a step that failed


class Result(StrEnum):
    """The results of a step."""

    HELD = "held"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Step:
    """A command that ends with 0 if a claim holds. `{python}` is this interpreter, `{scratch}` an
    empty folder that all steps share. `needs` are modules that may not be installed. `claim` is a
    few words for people."""

    name: str
    claim: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    timeout_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Checked:
    """A step with its result; `why` are the last lines of a failed one, or what is missing."""

    step: Step
    result: Result
    seconds: float
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{self.result:<12} {self.seconds:7.1f} s  {self.step.name}: {self.step.claim}"
        return "\n".join((head, *(f"    {line}" for line in self.why)))

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "step": self.step.name,
            "claim": self.step.claim,
            "result": self.result.value,
            "seconds": round(self.seconds, 3),
            "why": list(self.why),
        }


def _tests(name: str, claim: str, *words: str) -> Step:
    return Step(name, claim, (PYTHON, "-m", "pytest", "-q", *words), needs=("pytest",))


_TIDEGATE = (PYTHON, str(HOME / "driver" / "tidegate.py"))
_DEMO = (
    Step(
        "demo",
        "a recorded wave builds, refuses, repairs and ships",
        (*_TIDEGATE, "run", "--execute", "--demo", f"{HERE}/demo", "--output", f"{HERE}/demo.json"),
        timeout_s=600.0,
    ),
    Step(
        "state",
        "the state that the demo left is whole, and is that of its commits",
        (
            *(*_TIDEGATE, "verify-state", "--state-dir", f"{HERE}/demo/state"),
            *("--repo", f"{HERE}/demo/repo"),
        ),
        timeout_s=600.0,
    ),
    Step(
        "proof",
        "each commit of the demo is proven again, with the result of its receipt",
        (
            *(*_TIDEGATE, "reproduce", "newest", "--repo", f"{HERE}/demo/repo"),
            *("--state-dir", f"{HERE}/demo/state", "--config", f"{HERE}/demo/tidegate.toml"),
        ),
        timeout_s=600.0,
    ),
)
IN_A_CHECKOUT = (
    _tests(
        "tests",
        "units, contracts, integration and pages",
        *("tests/unit", "tests/contracts", "tests/integration", "tests/documents"),
    ),
    _tests("attacks", "a sample of the attacks on the evidence is refused", "tests/attacks"),
    _tests("faults", "a sample of kills, crashes and full disks loses nothing", "tests/faults"),
    _tests("more", "the examples that these samples leave out hold too", "-m", "more"),
    Step("types", "every module is typed strictly", (PYTHON, "-m", "mypy"), needs=("mypy",)),
    Step("style", "the source keeps its rules", (PYTHON, "-m", "ruff", "check", "."), ("ruff",)),
    _tests(
        "benches",
        "the measurements run; -s shows their figures",
        *("-m", "bench", "tests/bench/bench_selection.py", "tests/bench/bench_store.py"),
    ),
    *_DEMO,
)
INSTALLED = (
    Step("start", "the command starts", (*_TIDEGATE, "version"), timeout_s=60.0),
    *_DEMO,
    Step(
        "secrets",
        "what the demo wrote has no secret in it",
        (*_TIDEGATE, "secrets", f"{HERE}/demo/repo"),
        timeout_s=600.0,
    ),
)


def steps_here() -> tuple[Step, ...]:
    """The steps of this copy: of a checkout, or of an installed copy."""
    return IN_A_CHECKOUT if (HOME / "tests" / "unit").is_dir() else INSTALLED


def check(
    steps: Sequence[Step], scratch: Path, environ: Mapping[str, str], cwd: Path = HOME
) -> Iterator[Checked]:
    """Runs each step to its end, and yields its result."""
    processes, key = Processes(), new_key()
    for number, step in enumerate(steps):
        began = time.monotonic()
        missing = [name for name in step.needs if importlib.util.find_spec(name) is None]
        if missing:
            why = f"needs {' and '.join(missing)}, which is not installed for {sys.executable}"
            yield Checked(step, Result.NOT_CHECKED, 0.0, (why,))
            continue
        argv = tuple(
            word.replace(HERE, str(scratch)).replace(PYTHON, sys.executable)
            for word in step.command
        )
        # The copy that runs is the one that is checked, whatever else is installed.
        env = {**environ, **new_mark(key), "PYTHONPATH": str(HOME)}
        output = scratch / f"step-{number}"
        done = processes.run(Command(argv, cwd, env, step.timeout_s, output=output))
        held = done.exit_code == 0
        seconds = time.monotonic() - began
        printed = f"{done.stdout}\n{done.stderr}\n{done.reason}"
        last = tuple(line for line in printed.splitlines() if line.strip())[-_SHOWN:]
        result = Result.HELD if held else Result.FAILED
        yield Checked(step, result, seconds, () if held else last)
