"""Finds the JSON object in a chat completion. Pure.

Servers put it in fences, in prose, behind a model's thoughts, in the arguments of a tool call or in
the field for reasoning. Each kind of missing object has its own message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from driver.backend_api.json_parts import mapping_at, text_at
from driver.backend_api.json_schema import Schema, shape_problem
from driver.backends.http.reply import first_choice
from driver.terminal.safe_text import safe_line
from state_store.documents import strict_json
from state_store.values.lazy_dataclass import dataclass

_MAX_STARTS = 5000  # of objects in one text, so that many braces do not cost a minute
_THOUGHTS = "</think>"


@dataclass(frozen=True, slots=True)
class Unusable:
    """The reason why an answer is unusable. If `final`, asking again does not help. If `cut`, the
    next request needs a higher limit."""

    reason: str
    final: bool = False
    cut: bool = False


def read_answer(document: Mapping[str, Any], schema: Schema) -> dict[str, Any] | Unusable:
    """The last object in the answer that fits the schema."""
    choice = first_choice(document) or {}
    message = mapping_at(choice, "message")
    if refused := _refusal(choice, message):
        return Unusable(f"the model refused: {safe_line(refused)[:500]}", final=True)
    problem = ""
    for text in _texts(message):
        found, missing = _last_object(text, schema)
        if found is not None:
            return found
        problem = problem or missing
    if (thought := _whole_thought(message, schema)) is not None:
        return thought
    if choice.get("finish_reason") == "length":
        return Unusable("the answer was cut off at its length limit", cut=True)
    return Unusable(problem or "the answer was empty")


def answer_text(document: Mapping[str, Any]) -> str:
    """The model's text, for people, or ""."""
    return next(_texts(mapping_at(first_choice(document) or {}, "message")), "")


def says_something(document: Mapping[str, Any]) -> bool:
    """True if there is any answer, for which a model must have used tokens."""
    message = mapping_at(first_choice(document) or {}, "message")
    spoken = [message.get(key) for key in ("reasoning", "reasoning_content", "refusal")]
    return any(_texts(message)) or any(spoken)


def _refusal(choice: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    if (refusal := text_at(message, "refusal")).strip():
        return refusal
    parts = message.get("content")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and isinstance(part.get("refusal"), str):
            return str(part["refusal"])
    return "its content filter" if choice.get("finish_reason") == "content_filter" else ""


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "".join(part for part in parts if isinstance(part, str))
    if isinstance(content, str) and content.strip():
        yield content
    for call in [*(calls if isinstance(calls, list) else ()), message]:
        record = call if isinstance(call, dict) else {}
        function = mapping_at(record, "function") or mapping_at(record, "function_call")
        arguments = function.get("arguments")
        if isinstance(arguments, str) and arguments.strip():
            yield arguments
        elif isinstance(arguments, dict):
            yield json.dumps(arguments)


def _whole_thought(message: Mapping[str, Any], schema: Schema) -> dict[str, Any] | None:
    # Thoughts contain drafts of objects, so only an object that is the whole text counts.
    for key in ("reasoning_content", "reasoning"):
        with suppress(ValueError):
            value = strict_json.parse(text_at(message, key).strip())
            if isinstance(value, dict) and shape_problem(value, schema) is None:
                return value
    return None


def _last_object(text: str, schema: Schema) -> tuple[dict[str, Any] | None, str]:
    """The last object in `text` that fits the schema, or the fault of the last object."""
    problem = ""
    for part in (text.rpartition(_THOUGHTS)[2], text):
        found = None
        for value in _objects(part):
            wrong = shape_problem(value, schema)
            if wrong is None:
                found = value
            elif value.keys() & schema.get("properties", {}).keys():
                problem = wrong
        if found is not None:
            return found, ""
        if part == text:
            break
    return None, problem or _no_object(text, schema)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    at, starts = text.find("{"), 0
    while at >= 0 and starts < _MAX_STARTS:
        starts += 1
        try:
            value, end = strict_json.DECODER.raw_decode(text, at)
        except RecursionError:
            return  # nested too deeply, as would be all inner braces
        except ValueError:
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _no_object(text: str, schema: Schema) -> str:
    start = text.find("{")
    if start < 0:
        return "there is no JSON object in the answer"
    try:
        value, _ = strict_json.DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        return f"it is not valid JSON: {safe_line(str(error))[:200]}"
    return shape_problem(value, schema) or "there is no JSON object in the answer"
