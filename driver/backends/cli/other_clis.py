"""Parses the output of the agent programs that the `command` backend knows by name.

Each has a pure parser, for the lines of the output and of the usage file. A program without a
parser reports its use in a usage file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from driver.backend_api.json_parts import amount_at, count_at, mapping_at, text_at
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.cli.agent_reply import Reply, UsageSum
from driver.backends.cli.json_output import objects_in

TEXT_CHARACTERS = 1_000_000

Lines = Iterable[str]
Reader = Callable[[Lines, Lines], Reply]


def read_opencode(lines: Lines, usage_lines: Lines = ()) -> Reply:
    """`opencode run --format json`: an event per line. Each `step_finish` has the use of an answer.

    Its input excludes cached tokens, its output excludes reasoning.
    """
    del usage_lines
    sums, texts, failed, started = UsageSum(), [], None, False
    for event in objects_in(lines):
        started, part = True, mapping_at(event, "part")
        match event.get("type"):
            case "step_finish":
                tokens = mapping_at(part, "tokens")
                cache = mapping_at(tokens, "cache")
                taken = _sum(count_at(tokens, "input"), *(count_at(cache, k) for k in _CACHE))
                given = _sum(count_at(tokens, "output"), count_at(tokens, "reasoning"))
                sums.add(taken, given, amount_at(part, "cost"))
            case "text":
                texts.append(text_at(part, "text"))
            case "error":
                failed = mapping_at(event, "error")
    text = "\n".join(texts)
    if failed is None:
        return Reply(
            started,
            sums.answers > 0,
            text=text,
            usage=sums.usage,
            worked=bool(sums.answers or texts),
        )
    data = mapping_at(failed, "data")
    error = text_at(data, "message") or text_at(failed, "name") or "an error without words"
    return _failed(sums, text, error, data.get("statusCode"))


def read_gemini(lines: Lines, usage_lines: Lines = ()) -> Reply:
    """`gemini -o stream-json`: an event per line. The last is a `result` with the tokens of the
    run.

    Its output tokens exclude thoughts, its total includes them.
    """
    del usage_lines
    sums, texts, result, started = UsageSum(), [], None, False
    for event in objects_in(lines):
        started = True
        if event.get("type") == "message" and event.get("role") == "assistant":
            texts.append(text_at(event, "content"))
        elif event.get("type") == "result":
            result = event
    text = "".join(texts)
    if result is None:
        return Reply(started, finished=False, text=text, worked=bool(text))
    stats = mapping_at(result, "stats")
    taken, total = count_at(stats, "input_tokens"), count_at(stats, "total_tokens")
    if total and taken is None:
        sums.add(None, None, total=total)
    elif total and taken and total >= taken:
        sums.add(taken, total - taken)
    if result.get("status") == "success":
        return Reply(text=text, usage=sums.usage)
    error = text_at(mapping_at(result, "error"), "message") or "an error without words"
    code = re.search(r'"code"\s*:\s*(\d{3})\b', error)
    return _failed(sums, text, error, int(code[1]) if code else None)


# The names of provider errors in aider's library. aider itself ends with exit code 0 after them.
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


def read_aider(lines: Lines, usage_lines: Lines = ()) -> Reply:
    """aider with `--analytics-log`: the usage file has an event before and after every answer.

    A request without an answer is an error. Only the output has its message.
    """
    sums, requests, text = UsageSum(), 0, ""
    for event in objects_in(usage_lines):
        about = mapping_at(event, "properties")
        if event.get("event") == "message_send_starting":
            requests += 1
        elif event.get("event") == "message_send":
            taken, given = count_at(about, "prompt_tokens"), count_at(about, "completion_tokens")
            sums.add(taken, given, amount_at(about, "cost"))
    for line in lines:  # too long for memory perhaps, so only the end is kept
        text += line
        if len(text) > 2 * TEXT_CHARACTERS:
            text = text[-TEXT_CHARACTERS:]
    text = text[-TEXT_CHARACTERS:].strip()
    unanswered = requests > sums.answers
    found = list(_AIDER_ERROR.finditer(text)) if unanswered else []
    if found:
        error = " ".join(text[found[-1].start() :].split())  # it was wrapped for a terminal
        return _failed(sums, "", error, _OF_AIDER.get(found[-1][1]))
    finished = requests > 0 and not unanswered
    return Reply(requests > 0, finished, text=text, usage=sums.usage, worked=bool(sums.answers))


READERS: Mapping[str, Reader] = {
    "opencode": read_opencode,
    "gemini": read_gemini,
    "aider": read_aider,
}
_CACHE = ("read", "write")


def _failed(sums: UsageSum, text: str, error: str, code: object) -> Reply:
    """The reply of a failed run. `code` may be its HTTP status."""
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    # A refused request cost nothing. A request without a status may have been billed.
    turned_down = sums.usage if sums.answers else NOTHING_SPENT
    usage = sums.least if status is None else turned_down
    worked = bool(sums.answers or text)
    return Reply(error=error, status=status, text=text, usage=usage, worked=worked)


def _sum(*counts: int | None) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None
