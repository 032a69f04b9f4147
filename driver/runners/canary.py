"""The canary: a test that must fail, planned for a command, and judged after its run. Pure.

A suite that stays green with a failing test in it proves nothing. The canary imports the modules
that the item changed, so code in them that tampers with the runner meets it too. It cannot see code
that lies to its own tests only: an object that equals everything, a result that is hard-coded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from driver.runners.result import Counts, Doubt
from driver.runners.runner import Canary, CanaryInput, NotApplicable, Plan
from driver.runners.table import RUNNERS, find_call, make_call, npm_call, runner_of
from driver.test_command.build_scripts import MAKEFILES, PACKAGE
from driver.test_command.invocations import Command, programs
from driver.test_command.shell_parser import Simple

UNKNOWN_RUNNER = "the command calls no runner for which a failing test is known"
_STARTERS = ("npm", "npx", "yarn", "pnpm", "bun", "make", "gmake")
_BUILDS = tuple(rf"(?:^|/){re.escape(name)}\Z" for name in (PACKAGE, *MAKEFILES))
_READS = tuple(pattern for runner in RUNNERS.values() for pattern in runner.canary_reads)
_READ = re.compile("|".join(dict.fromkeys((*_BUILDS, *_READS))))
_DOES = "keeps returns finds counts joins sorts reads rounds adds drops merges splits takes gives"
_WHAT = "order values items names keys lines words parts pairs totals limits ranges steps dates"
_WHEN = "when_empty of_many of_one by_default as_given in_turn twice at_once from_both once_more"
_NAMES = tuple(tuple(words.split()) for words in (_DOES, _WHAT, _WHEN))

_NOT_RUN = (126, 127)
_STOPPED_EARLY = "stopping after "
_ELSEWHERE = re.compile(r"is not tested: (.+?), but (.+?) is;")


class CanaryVerdict(StrEnum):
    """The meaning of a run with the canary for the test command."""

    RED = "red"  # as it must be
    GREEN = "green"  # the command's green means nothing
    UNSEEN = "unseen"  # the command did not find it: run it alone, if there is a way
    ELSEWHERE = "elsewhere"  # the tests import another copy of what was changed
    UNDECIDED = "undecided"  # the run says nothing about it: timed out, could not run


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict and its reason, one sentence for the record."""

    verdict: CanaryVerdict
    reason: str


def may_plan(command: Command) -> bool:
    """True if the command calls a runner that takes a canary, or a program that may call one."""
    for words in programs(command):
        runner = RUNNERS.get(runner_of(words))
        if (runner and runner.plan) or Simple(words).name in _STARTERS:
            return True
    return False


def is_read(path: str) -> bool:
    """True if the text of a file can matter for the canary."""
    return _READ.search(path) is not None


def plan_canary(
    command: str | Sequence[str],
    files: Collection[str],
    changed: Collection[str],
    nonce: str,
    *,
    texts: Mapping[str, str] | None = None,
    workdir: str = "",
) -> Plan:
    """The canary for a command; all paths are the tree's, with slashes.

    `files` are the tree's, `changed` those that the item wrote. `nonce` is a fresh
    `innocent_name`, by which the canary is known again in the output. `texts` are the texts of the
    tree's files that `is_read` names. `workdir` is the folder of the tree that the command runs in.
    """
    given = command if isinstance(command, str) else tuple(command)
    settings = texts or {}
    call = find_call(given, workdir) or npm_call(given, workdir, settings)
    call = call or make_call(given, workdir, settings)
    runner = RUNNERS.get(runner_of(call.words)) if call else None
    if call is None or runner is None or runner.plan is None:
        return NotApplicable(UNKNOWN_RUNNER)
    return runner.plan(CanaryInput(call, files, changed, settings, nonce))


def innocent_name(number: int) -> str:
    """A name such as any test has, for a random number: nothing in it gives the canary away."""
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
) -> Judged:
    """Judge a run with the canary in the tree.

    `exit_code` is None for a run that did not end by itself; `output` is both streams; `now` are
    its counts, `real` those of the run without the canary (None where it runs alone).
    """
    if exit_code is None or exit_code < 0 or exit_code in _NOT_RUN:
        return Judged(CanaryVerdict.UNDECIDED, "the run with the canary did not end by itself")
    seen = any(name in output for name in canary.names)
    if exit_code and (other := _ELSEWHERE.search(output)):
        why = f"the tests import {other[2]} in place of {other[1]}, which was changed"
        return Judged(CanaryVerdict.ELSEWHERE, why)
    before = real.ran + real.skipped if isinstance(real, Counts) else 0
    no_more = isinstance(now, Counts) and now.ran + now.skipped == before
    all_passed = exit_code == 0 or (isinstance(now, Counts) and not now.failed)
    if not seen and no_more and all_passed:
        return Judged(CanaryVerdict.UNSEEN, "the command did not find the canary")
    if exit_code == 0:
        return Judged(CanaryVerdict.GREEN, "the canary has to fail, and yet the exit code is 0")
    if isinstance(now, Counts):
        return _by_counts(canary, output, seen, now)
    why = f"the run ended with exit {exit_code} and does not name the canary"
    red = Judged(CanaryVerdict.RED, f"the canary is red (exit {exit_code})")
    return red if seen else Judged(CanaryVerdict.UNDECIDED, why)


def _by_counts(canary: Canary, output: str, seen: bool, now: Counts) -> Judged:
    """The verdict of a counted run with a red exit code."""
    tests = len(canary.names)
    stopped = _STOPPED_EARLY in output and canary.names[0] in output
    if seen and (now.failed >= tests or (now.failed and stopped)):
        return Judged(CanaryVerdict.RED, f"the canary is red ({now.failed} failed)")
    if seen or not now.failed:
        why = f"{now.failed} of the canary's {tests} tests failed"
        return Judged(CanaryVerdict.GREEN, f"{why}: something lets failing tests pass")
    return Judged(CanaryVerdict.UNDECIDED, f"{now.failed} failed, the canary is not named")
