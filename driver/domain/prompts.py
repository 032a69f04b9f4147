"""Prompts for agents, built from an item and its last attempt. They name no path of this machine.
An item always has the same first prompt, so that a recording can be matched to it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from driver.domain.results import GATE, Attempt, RunKind, TestRun
from driver.domain.work_item import WorkItem
from driver.runners.failures import failures_first
from driver.terminal.safe_text import bounded, safe_text

MAX_OUTPUT_CHARS = 12_000
MAX_DIFF_CHARS = 24_000


def build_prompt(item: WorkItem, *, with_rules: bool) -> str:
    """The item's prompt and test command; `with_rules`, for a backend with file access, adds the
    rules."""
    return f"{item.prompt.rstrip()}\n\n{rules(item, with_rules=with_rules)}"


def rules(item: WorkItem, *, with_rules: bool) -> str:
    """The test command; `with_rules` adds the rules of the workspace."""
    counts = (
        f"Your work counts only when this command succeeds: {command_text(item.test_command)}\n"
    )
    if not with_rules:
        return counts
    files = "\n".join(f"  {name}" for name in item.owns_files)
    self_check = (
        f"- You may check yourself with: {command_text(item.self_check)}\n"
        if item.self_check is not None
        else ""
    )
    return (
        "Rules of this workspace:\n"
        f"- Change only these files (they may be new; a name ending in / is a folder):\n{files}\n"
        "- Below a folder of yours, tests that are there already and configuration of tests,"
        " builds, CI and agents stay as they are, unless listed above by name. You may add tests.\n"
        f"- {counts}"
        "  It is run for you afterwards, in a fresh checkout that has your changes to these files"
        " and nothing else.\n"
        f"{self_check}"
        "- Do not commit, do not switch branches, do not change git's configuration.\n"
    )


def repair_prompt(first: str, item: WorkItem, attempt: Attempt, diff: str) -> str:
    """The first prompt, then the failure: command, exit code, bounded output, and the diff
    so far."""
    test, error = attempt.test, f"Error: {safe_text(attempt.reason)}"
    if test is None:
        parts = [first.rstrip(), f"That did not work.\n{error}"]
    else:
        command = test.command if test.purpose == GATE else command_text(item.test_command)
        parts = [first.rstrip(), f"{_how_it_ended(test)}\nCommand: {command}\n{error}"]
    if test is not None and test.output:
        parts.append(quoted_output(test.output))
    if diff:
        parts.append(quoted("Your change so far, against the base", diff, MAX_DIFF_CHARS))
    parts.append("The files are as you left them. Correct them.")
    return "\n\n".join(parts) + "\n"


def command_text(command: str | tuple[str, ...]) -> str:
    """A command as typed into a shell."""
    return command if isinstance(command, str) else shlex.join(command)


def in_sequence(commands: Sequence[str | tuple[str, ...]]) -> str | tuple[str, ...]:
    """A single command that runs all commands in order until one fails, each in its own shell."""
    if len(commands) == 1:
        return commands[0]
    end = "" if os.name == "nt" else "\n"  # a text may end in a comment
    return " && ".join(f"({command_text(command)}{end})" for command in commands)


def _how_it_ended(test: TestRun) -> str:
    if test.kind is RunKind.TIMED_OUT:
        return f"Test timed out after {test.duration_s:.0f} seconds."
    if test.kind is RunKind.KILLED:
        over = test.exit_code is None
        return f"The test was ended: {test.reason}." if over else "The test was killed by a signal."
    if test.green or test.exit_code == 0:
        return "The test command succeeded, but it does not count."
    return f"Test failed with exit code {test.exit_code}."


def quoted_output(output: str) -> str:
    """The output of a test command in a code fence; a long output shows its failures first."""
    shown = failures_first(output, MAX_OUTPUT_CHARS)
    return quoted("Output of the test command", shown, MAX_OUTPUT_CHARS)


def quoted(title: str, text: str, limit: int | None) -> str:
    """`text` in a code fence below its title, cut to `limit` characters if there is a limit."""
    # The fence is longer than any fence in the text, so the text cannot end it.
    body = safe_text(text) if limit is None else bounded(safe_text(text), limit)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    return f"{title}:\n{fence}\n{body.rstrip()}\n{fence}"
