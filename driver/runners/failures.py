"""The failures in the output of test runners: the names of the failing tests, and the parts of a
long output that show them. Pure. Each runner's description has the marks of its failures."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from driver.runners.result import cleaned
from driver.runners.runner import Runner
from driver.runners.table import RUNNERS, runners_named
from driver.terminal.safe_text import bounded
from state_store.values.lazy_pattern import lazy_pattern

# The lines shown before and after each mark, from ample to bare.
_AROUND = ((3, 25), (2, 10), (1, 4), (0, 1), (0, 0))
# Lines of tests that did not fail, as most runners print them for all names (`-v`).
_NOT_FAILED = lazy_pattern(
    r" (?:PASSED|SKIPPED|XFAIL)(?: \(.*\))?(?: +\[ *\d+%\])?$"
    r"|^\[gw\d+\] \[ *\d+%\] (?:PASSED|SKIPPED)|\.\.\. (?:ok|ignored|skipped\b.*)$"
    r"|^ *(?:ok \d+|[\u2713\u2714\u221a\u25cb] |--- PASS: |=== RUN )"
)
_MOST_CHARS = 2_000  # of a marked line; a hostile line takes no time
_GAP = "[...]"
_FAILURES = "[the failures in this output:]"
_WHOLE = "[the output from its start and from its end:]"


def failing_tests(command: str | Sequence[str], stdout: str, stderr: str) -> tuple[str, ...]:
    """The names of the failing tests, in the spelling of the runner, each once. Runners whose
    summary is found are asked; if none is found, the runners that the command names, else all."""
    text = f"{cleaned(stdout)}\n{cleaned(stderr)}"
    given = command if isinstance(command, str) else tuple(command)
    named = [RUNNERS[name] for name in dict.fromkeys(runners_named(given))]
    closed = [runner for runner in RUNNERS.values() if _has_summary(runner, text)]
    red = [one for runner in closed or named or RUNNERS.values() for one in runner.red]
    found = (
        " ".join(match["name"].split())
        for _, start in _marked(text, red)
        for pattern in red
        if (match := _compiled(pattern).match(text, start, start + _MOST_CHARS))
    )
    return tuple(dict.fromkeys(found))


def failures_first(text: str, limit: int) -> str:
    """`text`, or if it is too long the parts that show failures, then its start and its end, in
    `limit` characters."""
    if len(text) <= limit:
        return text
    room = limit * 3 // 4 - len(_FAILURES)
    marks = [*_names(), *(one for runner in RUNNERS.values() for one in runner.red_marks)]
    lines = [one for one in text.split("\n") if not _NOT_FAILED.search(cleaned(one[:_MOST_CHARS]))]
    marked = [line for line, _ in _marked(cleaned("\n".join(lines)), marks)]
    if not marked:
        return bounded(text, limit - 60)
    for around in _AROUND:
        shown = _parts(lines, marked, *around)
        if len(shown) <= room:
            break
    start = f"{_FAILURES}\n{bounded(shown, room - 60)}\n\n{_WHOLE}\n"
    return start + bounded(text, limit - len(start) - 60)


def first_failure(text: str, limit: int = 200) -> str:
    """The line that shows the first failing test, else the last line of an output; "" for none."""
    lines = cleaned(text).split("\n")
    named = [lines[number] for number, _ in _marked("\n".join(lines), _names())]
    said = (line.strip() for line in (*named, *reversed(lines)))
    return next((line[:limit] for line in said if line), "")


def _has_summary(runner: Runner, text: str) -> bool:
    try:
        return bool(runner.read(text))
    except ValueError:  # thousands of digits
        return False


def _marked(text: str, patterns: Iterable[str]) -> Iterator[tuple[int, int]]:
    """The number and the start of each line that one of the patterns finds."""
    without_names = (re.sub(r"\?P<\w+>", "?:", one) for one in patterns)
    found, start = _compiled("|".join(without_names) or r"(?!)").match, 0
    for number, line in enumerate(text.split("\n")):
        if line and found(text, start, start + _MOST_CHARS):
            yield number, start
        start += len(line) + 1


def _parts(lines: Sequence[str], marked: Iterable[int], before: int, after: int) -> str:
    """The marked lines with the lines around them."""
    shown: list[str] = []
    done = 0
    for number in marked:
        start = max(number - before, done)
        if start > done and shown:
            shown.append(_GAP)
        shown += lines[start : number + after + 1]
        done = max(done, number + after + 1)
    return "\n".join(shown)


def _names() -> Iterator[str]:
    """The patterns of all runners for the names of failing tests."""
    return (one for runner in RUNNERS.values() for one in runner.red)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.M)
