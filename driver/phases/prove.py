"""Run an item's test on exactly one tree and say how it ended."""

from __future__ import annotations

from pathlib import Path

from driver import wave_bridge
from driver.agent_driver import CommandLimits
from driver.ground import Place, ProvingPlace
from driver.outcome import TestRun
from driver.process import child_environment
from driver.prompts import command_text
from driver.runs import RUN_VARIABLE
from driver.text import bounded
from driver.verdicts import run_kind
from driver.wave_context import Planned, Wave

MAX_KEPT_CHARS = 64_000
# Compiled files of an earlier tree with the same size and second would be believed by Python.
_TEST_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1"}


def prove(planned: Planned, place: Place, tree: str | None, wave: Wave, label: str) -> TestRun:
    """The test command of `planned` on `tree`, in a place that no agent has seen.

    `label` names the file that keeps the whole output. Raises WorkspaceError when the place
    cannot be prepared.
    """
    with place.proving(tree) as proving:
        return run_test(planned, proving, tree, wave, wave.scratch(planned.slug) / label)


def run_test(
    planned: Planned, proving: ProvingPlace, tree: str | None, wave: Wave, output: Path
) -> TestRun:
    """The test command of `planned` in a checkout of `tree`."""
    item, settings = planned.item, wave.settings
    extra = {**_TEST_ENVIRONMENT, RUN_VARIABLE: wave.wave_id}
    environment = child_environment(settings.environ, settings.verify.env, extra)
    result = wave_bridge.run_test_command(
        wave.driver,
        item.test_command,
        proving.path / planned.home.work_dir,
        CommandLimits(settings.verify.timeout_s, environment, output),
    )
    kind, reason = run_kind(result, proving.tampered())
    return TestRun(
        kind=kind,
        command=command_text(item.test_command),
        exit_code=None if result.could_not_run or result.timed_out else result.exit_code,
        output=bounded(_output(result.stdout, result.stderr, str(proving.path)), MAX_KEPT_CHARS),
        duration_s=result.duration_s,
        tree=tree,
        output_file=result.output_file,
        reason=reason,
    )


def _output(stdout: str, stderr: str, top: str) -> str:
    # The path of the proving tree means nothing to an agent in another folder.
    joined = "\n".join(part.rstrip("\n") for part in (stdout, stderr) if part.strip())
    return joined.replace(f"{top}/", "").replace(top, ".")
