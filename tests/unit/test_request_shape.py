"""How a server is asked, and what of that is left out once it has refused it."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.http.patch_protocol import PATCH_NAME, WORKER_PATCH_SCHEMA
from driver.backends.http.reply import TransportError
from driver.backends.http.request_shape import (
    JSON_OBJECT,
    JSON_SCHEMA,
    LIMITS,
    PLAIN,
    Shape,
    Shapes,
    payload,
    without_refused,
)

SCHEMA = (PATCH_NAME, WORKER_PATCH_SCHEMA)
FIRST = Shape()


def body(shape: Shape, limit: int | None = None) -> dict[str, Any]:
    return payload(shape, "m", [{"role": "user", "content": "x"}], SCHEMA, limit)


def refusal(
    message: str, parameter: str = "", kind: FaultKind = FaultKind.BAD_REQUEST
) -> TransportError:
    return TransportError(ProviderFault(kind, message, 400), parameter=parameter)


def test_the_first_request_asks_for_the_strict_schema_and_sends_no_limit() -> None:
    sent = body(FIRST)
    assert sent["temperature"] == 0
    assert sent["response_format"]["type"] == JSON_SCHEMA
    named = sent["response_format"]["json_schema"]
    assert (named["name"], named["strict"]) == ("WorkerPatch", True)
    assert named["schema"] == WORKER_PATCH_SCHEMA
    assert not set(LIMITS) & set(sent)


def test_a_schema_that_is_not_strict_is_not_called_so() -> None:
    loose = ("R", {"type": "object", "properties": {"a": {}}})
    sent = payload(FIRST, "m", [], loose)
    assert sent["response_format"]["json_schema"]["strict"] is False


def test_the_rungs_end_in_a_plain_request() -> None:
    assert body(Shape(JSON_OBJECT))["response_format"] == {"type": "json_object"}
    assert "response_format" not in body(Shape(PLAIN))
    assert "temperature" not in body(Shape(temperature=None))


def test_a_limit_has_the_first_name_that_is_left() -> None:
    assert body(Shape(), 9)["max_completion_tokens"] == 9
    assert body(Shape(limits=("max_tokens",)), 9)["max_tokens"] == 9
    assert not set(LIMITS) & set(body(Shape(limits=()), 9))


@pytest.mark.parametrize(
    ("message", "parameter", "limit", "expected"),
    [
        ("only 1 is supported", "temperature", None, Shape(temperature=None)),
        ("'temperature' does not support 0 with this model", "", None, Shape(temperature=None)),
        ("unsupported", "max_tokens", 9, Shape(limits=LIMITS[1:])),
        ("unsupported", "max_completion_tokens", 9, Shape(limits=LIMITS[1:])),
        ("Use 'max_tokens' instead.", "", 9, Shape(limits=LIMITS[1:])),
        ("Invalid", "response_format", None, Shape(JSON_OBJECT)),
        ("Invalid", "response_format.json_schema.schema", None, Shape(JSON_OBJECT)),
        ("'response_format.type' must be 'json_object'", "", None, Shape(JSON_OBJECT)),
        ("json_schema is not supported by this model", "", None, Shape(JSON_OBJECT)),
        ("failed to parse grammar", "", None, Shape(JSON_OBJECT)),
        ("no endpoint supports the requested parameters", "", None, Shape(JSON_OBJECT)),
        ("max_tokens is too large", "", None, None),
        ("messages: too long", "messages", None, None),
        ("messages: too long", "", None, None),
        ("temperature and json_schema", "messages", None, None),
        ("", "", None, None),
    ],
)
def test_what_is_named_as_refused_is_left_out(
    message: str, parameter: str, limit: int | None, expected: Shape | None
) -> None:
    assert without_refused(FIRST, refusal(message, parameter), body(FIRST, limit)) == expected


def test_no_other_fault_changes_how_a_server_is_asked() -> None:
    error = refusal("temperature", "temperature", FaultKind.RATE_LIMITED)
    assert without_refused(FIRST, error, body(FIRST)) is None


def test_the_ladder_ends() -> None:
    shape, steps = Shape(), []
    error = refusal("response_format is not supported")
    while (below := without_refused(shape, error, body(shape))) is not None:
        steps.append(below.format)
        shape = below
    assert steps == [JSON_OBJECT, PLAIN]


def test_what_one_model_refused_is_remembered_for_it_alone() -> None:
    shapes = Shapes()
    first = shapes.get("m")
    shapes.replace("m", first, Shape(PLAIN))
    assert shapes.get("m") == Shape(PLAIN)
    assert shapes.get("other") == Shape()


def test_a_refusal_that_comes_late_takes_nothing_back() -> None:
    shapes = Shapes()
    first = shapes.get("m")
    shapes.replace("m", first, Shape(JSON_OBJECT))
    shapes.replace("m", Shape(JSON_OBJECT), Shape(PLAIN))
    shapes.replace("m", first, Shape(JSON_OBJECT))
    assert shapes.get("m") == Shape(PLAIN)


def test_a_model_known_to_refuse_a_temperature_is_not_asked_for_one() -> None:
    assert Shapes().get("gpt-6-luna") == Shape(temperature=None)
