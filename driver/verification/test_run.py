"""Run an item's test on exactly one tree and say how it ended."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from driver.agents.dispatch import run_test_command
from driver.backend_api.driver import CommandLimits, CommandResult
from driver.domain.prompts import command_text
from driver.domain.results import PROOF, TestRun
from driver.execution.process_identity import RUN_VARIABLE
from driver.execution.processes import child_environment
from driver.policy.acceptance import ALLOW
from driver.policy.judgement import run_kind
from driver.run_state.context import ItemRun, Wave
from driver.runners.counts import count_tests
from driver.runners.result import Counts, Doubt
from driver.terminal.safe_text import bounded
from driver.workspace.repository_context import TestCheckout
from tools.settings.load import Settings

MAX_KEPT_CHARS = 64_000
MAX_READ_BYTES = 2**25
_BLOCK = 2**20
# Compiled files of an earlier tree with the same size and second would be believed by Python.
_TEST_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class TestRequest:
    """What a run is for; `label` names the file that keeps its whole output, a `fresh` place is one
    that no test ever ran in."""

    __test__ = False  # pytest collects classes by this name otherwise

    label: str
    purpose: str = PROOF
    fresh: bool = False


def prove(item: ItemRun, tree: str | None, ask: TestRequest) -> TestRun:
    """The test command of `item` on `tree`, in a checkout that no agent has seen.

    Raises WorkspaceError when the place cannot be prepared.
    """
    with item.checkouts.test_checkout(tree, fresh=ask.fresh) as proving:
        output = item.scratch / ask.label
        return run_test(item, proving, tree, output, purpose=ask.purpose)


@dataclass(frozen=True, slots=True)
class Test:
    """A command to be run on trees, in `work_dir` of each; `base` is where its work started."""

    __test__ = False  # pytest collects classes by this name otherwise

    command: str | tuple[str, ...]
    work_dir: str
    base: str


def run_test(
    item: ItemRun,
    proving: TestCheckout,
    tree: str | None,
    output: Path,
    *,
    purpose: str = PROOF,
) -> TestRun:
    """The test command of `item` in a checkout of `tree`; all it prints goes to `output`."""
    base = item.context.base
    test = Test(item.spec.test_command, item.work_dir, base)
    return run_on(test, proving, tree, item.wave, output, purpose=purpose)


def run_on(
    test: Test,
    proving: TestCheckout,
    tree: str | None,
    wave: Wave,
    output: Path,
    *,
    purpose: str = PROOF,
) -> TestRun:
    """The same for any test."""
    environment = test_environment(wave.settings, wave.mark)
    # A test can look up what it prints to, and must not learn there what it is run for.
    hidden = output.with_name(uuid.uuid4().hex)
    with wave.test_slots:
        result = run_test_command(
            wave.driver,
            test.command,
            proving.path / test.work_dir,
            CommandLimits(wave.settings.verify.timeout_s, environment, hidden),
        )
    result = _under_its_name(result, hidden, output)
    run = run_of(test, tree, result, proving.tampered(), wave.settings)
    return replace(
        run,
        output=bounded(_output(result.stdout, result.stderr, str(proving.path)), MAX_KEPT_CHARS),
        output_file=result.output_file,
        purpose=purpose,
        environment=tuple(sorted(environment)),
    )


def run_of(
    test: Test,
    tree: str | None,
    result: CommandResult,
    tampered: Sequence[str],
    settings: Settings,
) -> TestRun:
    """The receipt of a test that ran on `tree`, of whose files it changed `tampered`."""
    allowed = settings.verify.survivors == ALLOW
    kind, reason = run_kind(result, tampered, survivors_allowed=allowed)
    return TestRun(
        kind=kind,
        command=command_text(test.command),
        exit_code=None if result.could_not_run or result.timed_out else result.exit_code,
        output="",
        duration_s=result.duration_s,
        tree=tree,
        reason=reason,
        base=test.base,
        work_dir=test.work_dir,
        output_digest=output_digest(result.output_file),
        counts=counts_of(test.command, result),
        survivors=result.survivors,
    )


def _under_its_name(result: CommandResult, hidden: Path, output: Path) -> CommandResult:
    """The result with what was printed where people look for it."""
    if result.output_file is None:
        return result
    for suffix in (".out", ".err"):
        with suppress(OSError):  # the test took it away; then it said nothing
            Path(f"{hidden}{suffix}").replace(f"{output}{suffix}")
    return replace(
        result,
        output_file=f"{output}.out",
        stdout=result.stdout.replace(str(hidden), str(output)),
        stderr=result.stderr.replace(str(hidden), str(output)),
    )


def test_environment(settings: Settings, run: str) -> dict[str, str]:
    """All that a test sees of the environment; `run` marks the processes of a wave."""
    extra = {**_TEST_ENVIRONMENT, RUN_VARIABLE: run}
    return child_environment(settings.environ, settings.verify.env, extra)


def counts_of(command: str | tuple[str, ...], result: CommandResult) -> Counts | Doubt | None:
    """How many tests ran, by the whole output; None for one too long to be read."""
    if result.could_not_run:
        return None
    if result.output_file is None:
        return count_tests(command, result.stdout, result.stderr)
    whole = printed(result.output_file)
    return count_tests(command, *whole) if whole else None


def printed(output_file: str | None) -> tuple[str, str] | None:
    """All that a command printed, to stdout and to stderr; None where that is lost or too long."""
    if output_file is None:
        return None
    out, err = _streams(output_file)
    try:
        if out.stat().st_size + err.stat().st_size > MAX_READ_BYTES:
            return None
        return out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")
    except OSError:
        return None


def _streams(output_file: str) -> tuple[Path, Path]:
    return Path(output_file), Path(output_file).with_suffix(".err")


def output_digest(output_file: str | None) -> str | None:
    """Of what the command printed, whole: stdout's file, then that of stderr beside it."""
    if output_file is None:
        return None
    found = hashlib.sha256()
    for path in _streams(output_file):
        try:
            with path.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    found.update(block)
        except OSError:
            return None
    return found.hexdigest()


def _output(stdout: str, stderr: str, top: str) -> str:
    # The path of the proving tree means nothing to an agent in another folder.
    joined = "\n".join(part.rstrip("\n") for part in (stdout, stderr) if part.strip())
    return joined.replace(f"{top}/", "").replace(top, ".")
