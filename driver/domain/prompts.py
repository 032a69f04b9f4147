"""What agents are told: pure text from an item and its last attempt, no paths of this machine.

The same item always gives the same first prompt, so that a recording can be matched to it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from driver.domain.results import GATE, Attempt, RunKind, TestRun
from driver.domain.work_item import WorkItem
from driver.terminal.safe_text import bounded, safe_text

MAX_OUTPUT_CHARS = 12_000
MAX_DIFF_CHARS = 24_000


def build_prompt(item: WorkItem, *, with_rules: bool) -> str:
    """The item's own prompt and what its work is measured by.

    `with_rules` adds what a backend with file access has to know.
    """
    return f"{item.prompt.rstrip()}\n\n{rules(item, with_rules=with_rules)}"


def rules(item: WorkItem, *, with_rules: bool) -> str:
    """What the work is measured by, and with `with_rules` what the agent may do."""
    return _rules(item) if with_rules else _counts(item)


def repair_prompt(first: str, item: WorkItem, attempt: Attempt, diff: str) -> str:
    """The first prompt, then what went wrong: command, exit code, bounded output, the own diff."""
    parts = [first.rstrip(), _complaint(item, attempt)]
    if attempt.test is not None and attempt.test.output:
        parts.append(quoted("Output of the test command", attempt.test.output, MAX_OUTPUT_CHARS))
    if diff:
        parts.append(quoted("Your change so far, against the base", diff, MAX_DIFF_CHARS))
    parts.append("The files are as you left them. Correct them.")
    return "\n\n".join(parts) + "\n"


def command_text(command: str | tuple[str, ...]) -> str:
    """A command as one would type it."""
    return command if isinstance(command, str) else shlex.join(command)


def in_sequence(commands: Sequence[str | tuple[str, ...]]) -> str | tuple[str, ...]:
    """One command that runs them in order until one is red, each in a shell of its own."""
    if len(commands) == 1:
        return commands[0]
    end = "" if os.name == "nt" else "\n"  # a text may end in a comment
    return " && ".join(f"({command_text(command)}{end})" for command in commands)


def _rules(item: WorkItem) -> str:
    files = "\n".join(f"  {name}" for name in item.owns_files)
    return (
        "Rules of this workspace:\n"
        f"- Change only these files (they may be new; a name ending in / is a folder):\n{files}\n"
        "- Below a folder of yours, tests that are there already and configuration of tests,"
        " builds, CI and agents stay as they are, unless listed above by name. You may add tests.\n"
        f"- {_counts(item)}"
        "  It is run for you afterwards, in a fresh checkout that has your changes to these files"
        " and nothing else.\n"
        f"{_self_check(item)}"
        "- Do not commit, do not switch branches, do not change git's configuration.\n"
    )


def _counts(item: WorkItem) -> str:
    return f"Your work counts only when this command succeeds: {command_text(item.test_command)}\n"


def _self_check(item: WorkItem) -> str:
    if item.self_check is None:
        return ""
    return f"- You may check yourself with: {command_text(item.self_check)}\n"


def _complaint(item: WorkItem, attempt: Attempt) -> str:
    test = attempt.test
    if test is None:
        return f"That did not work.\nError: {safe_text(attempt.reason)}"
    command = test.command if test.purpose == GATE else command_text(item.test_command)
    return f"{_how_it_ended(test)}\nCommand: {command}\nError: {safe_text(attempt.reason)}"


def _how_it_ended(test: TestRun) -> str:
    if test.kind is RunKind.TIMED_OUT:
        return f"Test timed out after {test.duration_s:.0f} seconds."
    if test.kind is RunKind.KILLED:
        return "The test was killed by a signal."
    if test.green or test.exit_code == 0:
        return "The test command succeeded, but it does not count."
    return f"Test failed with exit code {test.exit_code}."


def quoted(title: str, text: str, limit: int | None) -> str:
    """`text` below its title, in a fence; whole where `limit` is None."""
    # The fence is longer than any inside, so quoted text cannot end it.
    body = safe_text(text) if limit is None else bounded(safe_text(text), limit)
    fence = "`" * max(3, 1 + max((len(run) for run in _backtick_runs(body)), default=0))
    return f"{title}:\n{fence}\n{body.rstrip()}\n{fence}"


def _backtick_runs(text: str) -> list[str]:
    return [run for run in "".join(c if c == "`" else " " for c in text).split() if run]
