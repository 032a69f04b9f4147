"""What other agents' programs print about a run: what it used, and how their provider failed.

One pure reader for each program that the `command` backend knows by name; it never judges the work.
Which fault an error is, `fault_words` says; a program without a reader tells by its usage file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.backend_api.driver import Usage
from driver.backend_api.usage import NOTHING_SPENT, amount, count, with_least
from driver.backends.cli.json_output import mapping_at, objects_in, text_at

SAID_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program left when it came to its own end: its output, and its usage file's lines."""

    lines: Iterable[str]
    usage_lines: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class CliReport:
    """`error` is why there was no answer, "" where there was one; `status` its HTTP status.

    `started` is False when it never came as far as its model; `finished` when it did not say that
    it is done, as it does whenever it is.
    """

    usage: Usage = field(default_factory=Usage)
    text: str = ""
    error: str = ""
    status: int | None = None
    started: bool = True
    finished: bool = True


Reader = Callable[[Printed], CliReport]


def read_opencode(printed: Printed) -> CliReport:
    """`opencode run --format json`: an event a line; every `step_finish` tells one answer's use.

    Input excludes what was read from and written to the cache, output what was reasoned.
    """
    sums, texts, failed, started = _Sums(), [], None, False
    for event in objects_in(printed.lines):
        started = True
        part = mapping_at(event, "part")
        match event.get("type"):
            case "step_finish":
                sums.add(*_opencode_step(part))
            case "text":
                texts.append(text_at(part, "text"))
            case "error":
                failed = mapping_at(event, "error")
    said = "\n".join(texts)
    if failed is None:
        return CliReport(sums.usage, said, started=started, finished=sums.answers > 0)
    data = mapping_at(failed, "data")
    status = _status(data.get("statusCode"))
    error = text_at(data, "message") or text_at(failed, "name") or "an error without words"
    return CliReport(sums.usage_with_an_error(status), said, error, status)


def _opencode_step(part: Mapping[str, Any]) -> tuple[int | None, int | None, float | None]:
    tokens = mapping_at(part, "tokens")
    cache = mapping_at(tokens, "cache")
    taken = _sum(_count(tokens, "input"), _count(cache, "read"), _count(cache, "write"))
    given = _sum(_count(tokens, "output"), _count(tokens, "reasoning"))
    return taken, given, _amount(part, "cost")


def read_gemini(printed: Printed) -> CliReport:
    """`gemini -o stream-json`: an event a line, the last a `result` with the tokens of the run.

    Its output tokens leave out the thoughts, its total has them.
    """
    texts, result, started = [], None, False
    for event in objects_in(printed.lines):
        started = True
        if event.get("type") == "message" and event.get("role") == "assistant":
            texts.append(text_at(event, "content"))
        elif event.get("type") == "result":
            result = event
    said = "".join(texts)
    if result is None:
        return CliReport(Usage(), said, started=started, finished=False)
    sums, stats = _Sums(), mapping_at(result, "stats")
    taken, total = _count(stats, "input_tokens"), _count(stats, "total_tokens")
    if total:
        sums.add(taken, None if taken is None else total - taken, None)
    if result.get("status") == "success":
        return CliReport(sums.usage, said)
    error = text_at(mapping_at(result, "error"), "message") or "an error without words"
    code = re.search(r'"code"\s*:\s*(\d{3})\b', error)
    status = _status(int(code[1])) if code else None
    return CliReport(sums.usage_with_an_error(status), said, error, status)


# How aider's library names what a provider answered; aider itself then ends with exit code 0.
_OF_AIDER = {
    "AuthenticationError": 401,
    "BadRequestError": 400,
    "ContextWindowExceededError": 400,
    "InternalServerError": 500,
    "NotFoundError": 404,
    "PermissionDeniedError": 403,
    "RateLimitError": 429,
    "ServiceUnavailableError": 503,
    "Timeout": 408,
}
_AIDER_ERROR = re.compile(r"^litellm\.(\w+): ", re.MULTILINE)


def read_aider(printed: Printed) -> CliReport:
    """aider with `--analytics-log` on the usage file: an event before and after every answer.

    A request without an answer is an error, whose words stand in the output and nowhere else.
    """
    sums, requests = _Sums(), 0
    for event in objects_in(printed.usage_lines):
        told = mapping_at(event, "properties")
        if event.get("event") == "message_send_starting":
            requests += 1
        elif event.get("event") == "message_send":
            taken, given = _count(told, "prompt_tokens"), _count(told, "completion_tokens")
            sums.add(taken, given, _amount(told, "cost"))
    said = _end_of(printed.lines).strip()
    unanswered = requests > sums.answers
    found = list(_AIDER_ERROR.finditer(said)) if unanswered else []
    if found:
        status = _OF_AIDER.get(found[-1][1])
        error = " ".join(said[found[-1].start() :].split())  # it was wrapped for a terminal
        return CliReport(sums.usage_with_an_error(status), said, error, status)
    finished = requests > 0 and not unanswered
    return CliReport(sums.usage, said, started=requests > 0, finished=finished)


READERS: Mapping[str, Reader] = {
    "opencode": read_opencode,
    "gemini": read_gemini,
    "aider": read_aider,
}


class _Sums:
    """The answers of one run; one whose use is unknown makes the whole unknown, but for the least
    that it was."""

    def __init__(self) -> None:
        self.answers = 0
        self._taken: int | None = 0
        self._given: int | None = 0
        self._cost: float | None = 0.0
        self._parts: list[Usage] = []

    def add(self, taken: int | None, given: int | None, cost: float | None) -> None:
        self.answers += 1
        # A server that tells no use makes all zeros of these programs; nothing is free, so a
        # cost of zero is a model without a known price.
        if not taken or not given or given < 0:
            taken = given = None
        self._taken, self._given = _sum(self._taken, taken), _sum(self._given, given)
        self._cost = self._cost + cost if self._cost is not None and cost else None
        self._parts.append(Usage(taken, given, cost or None))

    @property
    def usage(self) -> Usage:
        if self.answers == 0 or self._taken is None or self._given is None:
            return with_least(Usage(), self._parts)
        return with_least(Usage(self._taken, self._given, self._cost), self._parts)

    def usage_with_an_error(self, status: int | None) -> Usage:
        """What was turned down cost nothing; without a status it may have been billed."""
        if status is None:
            return with_least(Usage(), self._parts)
        return self.usage if self.answers else NOTHING_SPENT


def _end_of(lines: Iterable[str]) -> str:
    """The last `SAID_CHARACTERS` of a text that may be longer than memory."""
    said = ""
    for line in lines:
        said += line
        if len(said) > 2 * SAID_CHARACTERS:
            said = said[-SAID_CHARACTERS:]
    return said[-SAID_CHARACTERS:]


def _count(record: Mapping[str, Any], key: str) -> int | None:
    try:
        return count(record, key)
    except ValueError:
        return None


def _amount(record: Mapping[str, Any], key: str) -> float | None:
    try:
        return amount(record, key)
    except ValueError:
        return None


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and 400 <= value <= 599 else None


def _sum(*counts: int | None) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None
