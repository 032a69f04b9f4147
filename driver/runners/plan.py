"""A planted test that must be red: planned for a command, and judged when it has run. Pure.

A suite that stays green with a failing test in it proves nothing. The planted test imports what the
item changed, so what that code does to the runner happens to it too. It cannot see code that lies
to its own tests only: an object that equals everything, an answer written down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from driver.runners.compiled_canary import plan_cargo, plan_go
from driver.runners.counts import Counts, Doubt
from driver.runners.insertion import Call, Canary, Field, NotApplicable, Plan, find_call
from driver.runners.node_canary import npm_call, plan_node
from driver.runners.pytest_canary import CONFIGS, plan_pytest
from driver.runners.python_source import is_test_file
from driver.runners.unittest_canary import plan_unittest
from driver.test_command.build_scripts import MAKEFILES, PACKAGE, lines_run
from driver.test_command.invocations import programs, runner_of
from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import Simple


def make_call(
    command: str | tuple[str, ...], workdir: str, texts: Mapping[str, str]
) -> Call | None:
    """The call in the recipe of the target that the command makes; nothing can be added to it."""
    called = programs(command)
    if len(called) != 1 or Simple(called[0]).name not in ("make", "gmake"):
        return None
    lines = lines_run(command, workdir, lambda path: texts.get(path, ""))
    calls = [call for line, folder in lines if (call := _line_call(line, folder))]
    if len(calls) != 1:
        return None
    return Call(command, calls[0].words, calls[0].folder, extendable=False)


def _line_call(line: str, workdir: str) -> Call | None:
    try:
        return find_call(line, workdir)
    except UnreadableError:
        return None


__all__ = [
    "Canary",
    "CanaryVerdict",
    "Judged",
    "NotApplicable",
    "canary_verdict",
    "innocent_name",
    "is_read",
    "may_plan",
    "plan_canary",
]

_PLANS: Mapping[str, Callable[[Field], Plan]] = {
    "pytest": plan_pytest,
    "unittest": plan_unittest,
    "node": plan_node,
    "go": plan_go,
    "cargo": plan_cargo,
}
_STARTERS = ("npm", "npx", "yarn", "pnpm", "bun", "make", "gmake")

UNKNOWN_RUNNER = "the command calls no runner for which a failing test is known"
_READ = frozenset({PACKAGE, *CONFIGS, *MAKEFILES})
_COPIED = re.compile(
    r"_test\.go$|(?:^|/)tests/[^/]+\.rs$|(?:[._-]test|(?:^|/)test(?:/.*|-[^/]*)?)\.[cm]?js$"
)
_DOES = "keeps returns finds counts joins sorts reads rounds adds drops merges splits takes gives"
_WHAT = "order values items names keys lines words parts pairs totals limits ranges steps dates"
_WHEN = "when_empty of_many of_one by_default as_given in_turn twice at_once from_both once_more"
_NAMES = tuple(tuple(words.split()) for words in (_DOES, _WHAT, _WHEN))

_NOT_RUN = (126, 127)
_STOPPED_EARLY = "stopping after "
_ELSEWHERE = re.compile(r"is not tested: (.+?), but (.+?) is;")


class CanaryVerdict(StrEnum):
    """What a run with the planted test says about the test command."""

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


def plan_canary(
    command: str | Sequence[str],
    files: Collection[str],
    changed: Collection[str],
    nonce: str,
    *,
    texts: Mapping[str, str] | None = None,
    workdir: str = "",
) -> Plan:
    """The test to plant for a command; all paths are the tree's, with slashes.

    `files` are the tree's, `changed` those that the item wrote. `nonce` is a fresh
    `innocent_name`, by which the test is known again in the output. `texts` are the texts of the
    tree's files that `is_read` names. `workdir` is where in the tree the command runs.
    """
    given = command if isinstance(command, str) else tuple(command)
    settings = texts or {}
    call = _call(given, workdir, settings)
    runner = runner_of(call.words) if call else ""
    if call is None or runner not in _PLANS:
        return NotApplicable(UNKNOWN_RUNNER)
    return _PLANS[runner](Field(call, files, changed, settings, nonce))


def innocent_name(number: int) -> str:
    """A name such as any test has, for a random number: nothing in it says that it is planted."""
    chosen = []
    for words in _NAMES:
        number, at = divmod(number, len(words))
        chosen.append(words[at])
    return "_".join(chosen)


def _call(command: str | tuple[str, ...], workdir: str, texts: Mapping[str, str]) -> Call | None:
    try:
        call = find_call(command, workdir) or npm_call(command, workdir, texts)
        return call or make_call(command, workdir, texts)
    except UnreadableError:
        return None


def may_plan(command: str | Sequence[str]) -> bool:
    """Whether the command calls a known runner, or a program that may call one."""
    called = programs(command)
    return any(runner_of(words) in _PLANS or Simple(words).name in _STARTERS for words in called)


def is_read(path: str) -> bool:
    """Whether the text of a file can matter for the planted test."""
    name = path.rpartition("/")[2]
    return name in _READ or is_test_file(path) or _COPIED.search(path) is not None


def canary_verdict(
    canary: Canary,
    exit_code: int | None,
    output: str,
    now: Counts | Doubt | None,
    real: Counts | Doubt | None,
) -> Judged:
    """Judge a run with the planted test in the tree.

    `exit_code` is None for a run that did not end by itself; `output` is both streams; `now` are
    its counts, `real` those of the run without the planted test (None where it runs alone).
    """
    if exit_code is None or exit_code < 0 or exit_code in _NOT_RUN:
        return Judged(
            CanaryVerdict.UNDECIDED, "the run with the planted test did not end by itself"
        )
    seen = any(name in output for name in canary.names)
    if exit_code and (other := _ELSEWHERE.search(output)):
        told = f"the tests import {other[2]} in place of {other[1]}, which was changed"
        return Judged(CanaryVerdict.ELSEWHERE, told)
    if exit_code == 0:
        return _with_exit_0(seen, now, real)
    if isinstance(now, Counts):
        return _with_counts(canary, output, seen, now, real)
    if seen:
        return Judged(CanaryVerdict.RED, f"the planted test is red (exit {exit_code})")
    return _undecided(exit_code)


def _with_exit_0(seen: bool, now: Counts | Doubt | None, real: Counts | Doubt | None) -> Judged:
    if not seen and _not_found(now, real):
        return Judged(CanaryVerdict.UNSEEN, "the command did not find the planted test")
    return Judged(CanaryVerdict.GREEN, "a test that must fail was planted, and the exit code is 0")


def _with_counts(
    canary: Canary, output: str, seen: bool, now: Counts, real: Counts | Doubt | None
) -> Judged:
    planted = len(canary.names)
    stopped = _STOPPED_EARLY in output and canary.names[0] in output
    if seen and (now.failed >= planted or (now.failed and stopped)):
        return Judged(CanaryVerdict.RED, f"the planted test is red ({now.failed} failed)")
    if not now.failed and not seen and _not_found(now, real):
        return Judged(CanaryVerdict.UNSEEN, "the command did not find the planted test")
    if seen or not now.failed:
        told = f"{now.failed} of {planted} planted tests failed"
        return Judged(CanaryVerdict.GREEN, f"{told}: something lets failing tests pass")
    return Judged(CanaryVerdict.UNDECIDED, f"{now.failed} failed, the planted test is not named")


def _not_found(now: Counts | Doubt | None, real: Counts | Doubt | None) -> bool:
    """Whether the run had no test more than without the planted one."""
    if not isinstance(now, Counts):
        return False
    before = real.ran + real.skipped if isinstance(real, Counts) else 0
    return now.ran + now.skipped == before


def _undecided(exit_code: int) -> Judged:
    told = f"the run ended with exit {exit_code} and does not name the planted test"
    return Judged(CanaryVerdict.UNDECIDED, told)
