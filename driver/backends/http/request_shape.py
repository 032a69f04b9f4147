"""Builds the request for a completion, without the parts that the server refuses.

There is no list of model names: the first request of each model shows what its server takes. A
refused part is removed or changed from then on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from driver.backend_api.json_schema import is_strict
from driver.backend_api.models import takes_temperature
from driver.backend_api.provider_fault import FaultKind
from driver.backends.http.patch_protocol import Message
from driver.backends.http.reply import TransportError
from state_store.values.lazy_dataclass import dataclass, replace

JSON_SCHEMA = "json_schema"
JSON_OBJECT = "json_object"
PLAIN = "plain"
LADDER = (JSON_SCHEMA, JSON_OBJECT, PLAIN)
LIMITS = ("max_completion_tokens", "max_tokens")

_FORMAT_WORDS = re.compile(
    r"response_format|json_schema|json_object|json mode|structured output|grammar|guided"
    r"|requested parameters"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a request: its response format, its temperature if any, and the names of the
    token limit to try, in order."""

    format: str = JSON_SCHEMA
    temperature: int | None = 0
    limits: tuple[str, ...] = LIMITS


def payload(
    shape: Shape,
    model: str,
    messages: Sequence[Message],
    schema: tuple[str, Mapping[str, Any]],
    limit: int | None = None,
) -> dict[str, Any]:
    """The request's body. `schema` is (name, schema), `limit` the maximum tokens of the answer."""
    body: dict[str, Any] = {"model": model, "messages": list(messages)}
    if shape.temperature is not None:
        body["temperature"] = shape.temperature
    if limit is not None and shape.limits:
        body[shape.limits[0]] = limit
    if shape.format == JSON_SCHEMA:
        name, fields = schema
        named = {"name": name, "strict": is_strict(fields), "schema": dict(fields)}
        body["response_format"] = {"type": JSON_SCHEMA, JSON_SCHEMA: named}
    elif shape.format == JSON_OBJECT:
        body["response_format"] = {"type": JSON_OBJECT}
    return body


def without_refused(shape: Shape, error: TransportError, sent: Mapping[str, Any]) -> Shape | None:
    """The shape without the refused part; None if no part can be removed."""
    if error.fault.kind is not FaultKind.BAD_REQUEST:
        return None
    named = error.parameter.partition(".")[0]
    words = f"{error.code} {error.fault.message}".lower()

    def refused(key: str) -> bool:
        return key in sent and (named == key if named else key in words)

    if refused("temperature"):
        return replace(shape, temperature=None)
    limit = next((name for name in LIMITS if name in sent), "")
    if limit and (named in LIMITS if named else "max_tokens" in words or limit in words):
        return replace(shape, limits=shape.limits[1:])
    of_format = named == "response_format" if named else _FORMAT_WORDS.search(words) is not None
    if of_format and "response_format" in sent:
        return replace(shape, format=LADDER[LADDER.index(shape.format) + 1])
    return None


class Shapes:
    """The shapes that a server takes, by model. Thread safe."""

    def __init__(self, *, limits: tuple[str, ...] = LIMITS) -> None:
        """`limits` are the names of the token limit, in the order to try."""
        self._limits = limits
        self._known: dict[str, Shape] = {}
        self._lock = threading.Lock()

    def get(self, model: str) -> Shape:
        """The best known shape for this model."""
        with self._lock:
            return self._known.get(model) or self._first(model)

    def replace(self, model: str, old: Shape, new: Shape) -> Shape:
        """Replace the refused shape `old`; returns the next shape, perhaps found by another
        thread."""
        with self._lock:
            if self._known.get(model, self._first(model)) == old:
                self._known[model] = new
            return self._known[model]

    def _first(self, model: str) -> Shape:
        return Shape(temperature=0 if takes_temperature(model) else None, limits=self._limits)
