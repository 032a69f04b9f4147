"""The canary: failing tests, planned for a command and judged after its run. Pure.

A suite that stays green with a failing test proves nothing. The canary shares the process of the
real tests, so it also meets code that tampers with the runner. It cannot detect code that deceives
only its own tests: an object that equals everything, a hard-coded result.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from driver.runners.python_canary import loaded_elsewhere
from driver.runners.result import Counts, Doubt, cleaned
from driver.runners.runner import Canary, CanaryInput, NotApplicable, Plan
from driver.runners.table import RUNNERS, call_of, runner_of
from driver.test_command.build_scripts import MAKEFILES, PACKAGE
from driver.test_command.invocations import Command, programs
from driver.test_command.shell_parser import Simple
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

UNKNOWN_RUNNER = "the command calls no runner that has a canary test"
_STARTERS = ("npm", "npx", "yarn", "pnpm", "bun", "make", "gmake")
_BUILDS = tuple(rf"(?:^|/){re.escape(name)}\Z" for name in (PACKAGE, *MAKEFILES))
_READS = tuple(pattern for runner in RUNNERS.values() for pattern in runner.canary_reads)
_READ = lazy_pattern("|".join(dict.fromkeys((*_BUILDS, *_READS))))
_DOES = "keeps returns finds counts joins sorts reads rounds adds drops merges splits takes gives"
_WHAT = "order values items names keys lines words parts pairs totals limits ranges steps dates"
_WHEN = "when_empty of_many of_one by_default as_given in_turn twice at_once from_both once_more"
_NAMES = tuple(tuple(words.split()) for words in (_DOES, _WHAT, _WHEN))

_NOT_RUN = (126, 127)
_STOPPED_EARLY = "stopping after "
_MAX_TOLD = 200


class CanaryVerdict(StrEnum):
    """The meaning of a canary run for the test command."""

    RED = "red"  # the correct result
    GREEN = "green"  # the command's green proves nothing
    UNSEEN = "unseen"  # the command did not run it: run it alone, if possible
    ELSEWHERE = "elsewhere"  # the tests import another copy of a changed module
    UNDECIDED = "undecided"  # no result: timed out, could not run
    NOT_APPLICABLE = "not_applicable"  # red for another reason than its assertions


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict and its reason."""

    verdict: CanaryVerdict
    reason: str


def may_plan(command: Command) -> bool:
    """True if the command calls a runner with a canary, or a program that may call such a
    runner."""
    for words in programs(command):
        runner = RUNNERS.get(runner_of(words))
        if (runner and runner.plan) or Simple(words).name in _STARTERS:
            return True
    return False


def is_read(path: str) -> bool:
    """True if the canary may need the text of a file."""
    return _READ.search(path) is not None


def plan_canary(  # noqa: PLR0913 - the facts of a plan, which callers give by name
    command: str | Sequence[str],
    files: Collection[str],
    changed: Collection[str],
    nonce: str,
    *,
    texts: Mapping[str, str] | None = None,
    workdir: str = "",
    output: str = "",
) -> Plan:
    """The canary for a command.

    All paths are relative to the tree, with slashes. `files` are the paths of the tree, `changed`
    the paths that the item wrote. `nonce` is a fresh `innocent_name` that identifies the canary in
    the output. `texts` are the texts of the files that `is_read` selects. `workdir` is the folder
    that the command runs in. `output` is that of an earlier run; it may name the test files.
    """
    given = command if isinstance(command, str) else tuple(command)
    settings = texts or {}
    call = call_of(given, workdir, lambda path: settings.get(path, ""))
    runner = RUNNERS.get(runner_of(call.words)) if call else None
    if call is None or runner is None or runner.plan is None:
        return NotApplicable(UNKNOWN_RUNNER)
    return runner.plan(CanaryInput(call, files, changed, settings, nonce, cleaned(output)))


def innocent_name(number: int) -> str:
    """A usual test name for a random number. Nothing in it reveals the canary."""
    chosen = []
    for words in _NAMES:
        number, at = divmod(number, len(words))
        chosen.append(words[at])
    return "_".join(chosen)


def canary_verdict(
    canary: Canary,
    exit_code: int | None,
    output: str,
    now: Counts | Doubt | None,
    real: Counts | Doubt | None,
    top: str = "",
) -> Judged:
    """The verdict on a run with the canary in the tree. `exit_code` is None for a run that did not
    end by itself. `output` is both streams. `now` are the run's counts, `real` the counts without
    the canary (None if it runs alone). `top` is the folder of the tree.

    Only what the runner itself reports about the canary counts. A linter that prints the canary's
    source shows its names as well.
    """
    if exit_code is None or exit_code < 0 or exit_code in _NOT_RUN:
        return Judged(CanaryVerdict.UNDECIDED, "the run with the canary did not end by itself")
    if exit_code and (other := loaded_elsewhere(output, canary.modules, top)):
        return Judged(CanaryVerdict.ELSEWHERE, other)
    seen = any(name in output for name in canary.names)
    before = real.ran + real.skipped if isinstance(real, Counts) else 0
    no_more = isinstance(now, Counts) and now.ran + now.skipped == before
    all_passed = exit_code == 0 or (isinstance(now, Counts) and not now.failed)
    if not seen and no_more and all_passed:
        return Judged(CanaryVerdict.UNSEEN, "the command did not find the canary")
    if exit_code == 0:
        return Judged(CanaryVerdict.GREEN, "the canary must fail, but the exit code is 0")
    # The work may print the words as well, so the counts must say the same.
    is_short = isinstance(now, Counts) and now.ran + now.skipped < before + len(canary.names)
    stopped = canary.stops or (is_short and _STOPPED_EARLY in output)
    judged = _by_report(canary, exit_code, cleaned(output), now, seen=seen, stopped=stopped)
    if judged.verdict is CanaryVerdict.UNDECIDED and real is None and not seen:
        reports = RUNNERS[canary.runner].failures
        if isinstance(now, Counts) and reports and reports(cleaned(output)):
            why = "the command reports other failed tests, and not the canary"
            return Judged(CanaryVerdict.UNSEEN, why)
    return judged


def _by_report(
    canary: Canary,
    exit_code: int,
    output: str,
    now: Counts | Doubt | None,
    *,
    seen: bool,
    stopped: bool,
) -> Judged:
    """The verdict on a run with a red exit code, by the runner's report on each test. A run that
    `stopped` at its first red test has not come to all canary tests."""
    reports = RUNNERS[canary.runner].failures
    told = reports(output) if reports else {}
    red = [name for name in canary.names if told.get(name) == ""]
    others = [name for name in canary.names if name not in red]
    reason = next((told[name] for name in others if name in told), "")
    enough = not isinstance(now, Counts) or now.failed >= len(red)
    if red and enough and (stopped or not others):
        return Judged(CanaryVerdict.RED, f"the canary is red ({len(red)} failed)")
    if others and all(name in told for name in others):
        why = f"the canary fails for another reason: {reason[:_MAX_TOLD]}"
        return Judged(CanaryVerdict.NOT_APPLICABLE, why)
    if red or (isinstance(now, Counts) and (seen or not now.failed)):
        passed = [kind for name, kind in zip(canary.names, canary.tries, strict=False)
                  if name in others]  # fmt: skip
        kinds = f" by {', '.join(dict.fromkeys(passed))}" if red and passed else ""
        why = f"{len(red)} of the canary's {len(canary.names)} tests failed"
        return Judged(CanaryVerdict.GREEN, f"{why}: something lets failing tests pass{kinds}")
    if isinstance(now, Counts):
        why = f"{now.failed} failed, but the output does not name the canary"
        return Judged(CanaryVerdict.UNDECIDED, why)
    words = (canary.path, *canary.names)
    for line in output.splitlines():
        if any(word in line for word in words):
            why = f"the command is red before its tests: {line.strip()[:_MAX_TOLD]}"
            return Judged(CanaryVerdict.NOT_APPLICABLE, why)
    why = f"the run ended with exit {exit_code} and did not name the canary"
    return Judged(CanaryVerdict.UNDECIDED, why)
