"""The patch in an answer, wherever servers and models put it; each way to have none told apart."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from driver.backend_api.json_schema import is_strict, shape_problem
from driver.backends.http.chat_answer import Unusable, answer_text, read_answer, says_something
from driver.backends.http.patch_protocol import WORKER_PATCH_SCHEMA
from tests.support.raw_server import completion, patch

PATCH = patch({"a.txt": "new {braces} and ``` fences"})
VALUE = json.loads(PATCH)
OTHER = patch({"b.txt": "other"})


def message(content: Any, finish: str = "stop", **more: Any) -> dict[str, Any]:
    document = completion(content, **more)
    document["choices"][0]["finish_reason"] = finish
    return document


def call(arguments: Any) -> dict[str, Any]:
    return {"id": "", "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
    "document",
    [
        message(PATCH),
        message(f"  \n{PATCH}\n"),
        message(f"```json\n{PATCH}\n```"),
        message(f"```\n{PATCH}\n```\nDone."),
        message(f"Here is the patch: {PATCH} I hope it {{helps}}."),
        message(f"First I thought of {OTHER}, but: {PATCH}"),
        message(f"<think>{{'a': {{}} }} {OTHER}</think>\n\n{PATCH}"),
        message(f"it is {{}} then {OTHER}</think>{PATCH}"),
        message(f"<think>{PATCH}</think>"),
        message([{"type": "text", "text": PATCH[:9]}, {"type": "text", "text": PATCH[9:]}]),
        message([{"type": "output_text", "text": PATCH}]),
        message([PATCH]),
        message(None, reasoning_content=PATCH),
        message("", reasoning=f" {PATCH} "),
        message(None, tool_calls=[call(PATCH)]),
        message(None, tool_calls=[call(VALUE)]),
        message(None, tool_calls=["x", call(""), call(PATCH)]),
        message(None, function_call={"name": "f", "arguments": PATCH}),
        message(PATCH, finish="length"),
        message(PATCH, refusal=None, reasoning=""),
        message(PATCH, refusal=""),
    ],
)
def test_the_last_object_that_fits_is_the_answer(document: dict[str, Any]) -> None:
    assert read_answer(document, WORKER_PATCH_SCHEMA) == VALUE
    assert says_something(document)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (message(None), "the answer was empty"),
        (message(""), "the answer was empty"),
        (message(5), "the answer was empty"),
        (message([]), "the answer was empty"),
        (message("I cannot see the files."), "no JSON object"),
        (message(PATCH[:-9]), "not valid JSON"),
        (message('{"files": [], "summary": "line\nbreak", "done": true}'), "not valid JSON"),
        (message('{"files": [], "files": [], "summary": "", "done": true}'), "stands twice"),
        (message('{"a": 1}'), "lacks 'files'"),
        (message('{"files": {}, "summary": "", "done": true}'), "files must be array"),
        (message('{"files": [1], "summary": "", "done": true}'), r"files\[0\] must be object"),
        (message('{"files": [], "summary": "", "done": 1}'), "done must be boolean"),
        (message('{"files": [], "summary": "", "done": true, "x": 1}'), "unknown key 'x'"),
        (
            message('{"files": [{"path": "a"}], "summary": "", "done": true}'),
            r"files\[0\] lacks 'contents'",
        ),
        (message(None, tool_calls=[call("{")]), "not valid JSON"),
        (message(None, tool_calls=[call(None)]), "the answer was empty"),
        (message(None, reasoning=f"perhaps {PATCH}"), "the answer was empty"),
        (message(None, reasoning="{"), "the answer was empty"),
        (message("{" * 100_000), "not valid JSON"),
        ({"choices": [{}]}, "the answer was empty"),
    ],
)
def test_an_answer_without_one_is_told_apart(document: dict[str, Any], reason: str) -> None:
    found = read_answer(document, WORKER_PATCH_SCHEMA)
    assert isinstance(found, Unusable)
    assert not found.final
    assert not found.cut
    with pytest.raises(ValueError, match=reason):
        raise ValueError(found.reason)


@pytest.mark.parametrize("content", [None, "", PATCH[:-4], "thinking about it"])
def test_an_answer_at_its_length_limit_was_cut_off(content: str | None) -> None:
    found = read_answer(message(content, finish="length"), WORKER_PATCH_SCHEMA)
    assert isinstance(found, Unusable)
    assert found.cut


@pytest.mark.parametrize(
    "document",
    [
        message(None, refusal="I cannot help with that"),
        message(PATCH, refusal="I cannot help with that"),
        message([{"type": "refusal", "refusal": "I cannot help with that"}]),
        message("", finish="content_filter"),
    ],
)
def test_a_refusal_is_final(document: dict[str, Any]) -> None:
    found = read_answer(document, WORKER_PATCH_SCHEMA)
    assert isinstance(found, Unusable)
    assert found.final
    assert "refused" in found.reason


@pytest.mark.parametrize(
    "text",
    [
        "{" * 2_000_000,
        '{"a":' * 400_000,
        '{"a":"' * 300_000,
        '{"files":[' * 200_000,
        "{}" * 1_000_000,
    ],
    ids=["open", "nested", "quoted", "lists", "empty"],
)
def test_an_answer_of_braces_does_not_take_long(text: str) -> None:
    began = time.thread_time()  # of the processor, which others use too
    assert isinstance(read_answer(message(text), WORKER_PATCH_SCHEMA), Unusable)
    assert time.thread_time() - began < 2


def test_what_was_said_is_the_content_or_what_a_tool_was_told() -> None:
    assert answer_text(message("words")) == "words"
    assert answer_text(message(None, tool_calls=[call("{}")])) == "{}"
    assert answer_text({}) == ""


@pytest.mark.parametrize("document", [{}, {"choices": [{}]}, message(None), message("  ")])
def test_an_empty_answer_says_nothing(document: dict[str, Any]) -> None:
    assert not says_something(document)


def test_thoughts_alone_say_something() -> None:
    assert says_something(message(None, reasoning="hm"))


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        (None, {"type": ["string", "null"]}, True),
        ("x", {"type": ["string", "null"]}, True),
        (5, {"type": ["string", "null"]}, False),
        (5, {"type": "integer"}, True),
        (True, {"type": "integer"}, False),
        (True, {"type": "number"}, False),
        (5.5, {"type": "number"}, True),
        ("a", {"enum": ["a", "b"]}, True),
        ("c", {"enum": ["a", "b"]}, False),
        ({"more": 1}, {"type": "object", "properties": {}}, True),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}, False),
        ("anything", {}, True),
    ],
)
def test_a_value_fits_the_words_of_schemas_that_are_known(
    value: Any, schema: dict[str, Any], fits: bool
) -> None:
    assert (shape_problem(value, schema) is None) is fits


def test_the_patch_schema_is_strict_at_every_level() -> None:
    assert is_strict(WORKER_PATCH_SCHEMA)
    loose = json.loads(json.dumps(WORKER_PATCH_SCHEMA))
    loose["properties"]["files"]["items"]["required"] = ["path"]
    assert not is_strict(loose)
    assert not is_strict({"type": "object", "properties": {}})
