"""The conversation of one dispatch with a model: asks, parses, asks again and counts use.

Retries requests after faults, waiting at the gate, and asks again after unusable answers. Writes no
file of the workspace.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    WorkerRequest,
)
from driver.backend_api.json_parts import count_at, mapping_at
from driver.backend_api.models import Price
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.throttle import Throttle
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.http.chat_answer import Unusable, answer_text, read_answer
from driver.backends.http.chat_usage import Bill
from driver.backends.http.exchange import CancelledRequestError, Watch
from driver.backends.http.patch_protocol import (
    PATCH_NAME,
    RESULT_NAME,
    WORKER_PATCH_SCHEMA,
    Message,
    ScopeError,
    Shown,
    nudge,
    opening,
    patch_files,
)
from driver.backends.http.reply import TransportError
from driver.backends.http.request_shape import Shapes, payload, without_refused
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import append_plain
from state_store.redaction.installed import redacted_value
from state_store.values.lazy_dataclass import dataclass, field

_LONG_ANSWER = 32_768  # tokens, asked for when an answer was cut off
_MOST_TOKENS = 1_000_000
_NOTES_BYTES = 16_384
_TEXT_CHARACTERS = 4000

Document = dict[str, Any]
Send = Callable[[Document, Watch], Document]


@dataclass(frozen=True, slots=True)
class Channel:
    """The connection of a backend's dialogues to their server.

    `send` raises TransportError. `stall_s` is the time limit of a request, `max_retries` the number
    of new requests after a malformed answer.
    """

    send: Send
    throttle: Throttle
    shapes: Shapes
    cancelled: threading.Event
    stall_s: float | None
    max_retries: int
    prices: Mapping[str, Price]


@dataclass(frozen=True, slots=True)
class Work:
    """A usable answer with the files to write, or the reason for a failure."""

    value: Document = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    failure: str = ""
    error: str = ""
    fault: ProviderFault | None = None


class Dialogue:
    """The dialogue of one dispatch. Not thread safe. `bill` and `text`, the model's last text, are
    kept after a failure."""

    def __init__(
        self,
        channel: Channel,
        request: WorkerRequest,
        model: str,
        shown: Shown,
        *,
        until: float,
        heard: Callable[[], None],
    ) -> None:
        """`until` is the end on the monotonic clock. `heard` is called at every sign of life."""
        self.bill = Bill(model, channel.prices)
        self.text = ""
        self._channel, self._request, self._model, self._shown = channel, request, model, shown
        self._until, self._heard = until, heard
        self._messages: list[Message] = opening(request.full_prompt, shown, request.result_schema)
        self._limit: int | None = None
        self._stopped = ""
        self._silent = 0

    def run(self) -> Work:
        """Ask until a usable answer comes or retrying cannot help."""
        reason, tries, opened = "", self._channel.max_retries + 1, len(self._messages)
        for _ in range(tries):
            if reason and (why := self._reason_to_end(reason, self._messages[opened:])):
                return Work(failure=FAILURE_AGENT, error=why)
            reply = self._ask()
            if isinstance(reply, TransportError):
                if isinstance(reply, CancelledRequestError) or self._channel.cancelled.is_set():
                    return Work(failure=FAILURE_CANCELLED, error="the request was cancelled")
                stopped = f"; not tried again: {self._stopped}" if self._stopped else ""
                error = f"{reply}{stopped}"
                return Work(failure=FAILURE_COULD_NOT_RUN, error=error, fault=reply.fault)
            work = self._understood(reply)
            if not isinstance(work, Unusable):
                return work
            if work.final:
                return Work(failure=FAILURE_AGENT, error=work.reason)
            if work.cut:
                tokens = count_at(mapping_at(reply, "usage"), "completion_tokens") or 0
                self._limit = max(_LONG_ANSWER, 2 * tokens if tokens < _MOST_TOKENS else 0)
            reason = work.reason
            self._messages += nudge(reason)
        text = f"structured output validation failed after {tries} attempts: {reason}"
        return Work(failure=FAILURE_AGENT, error=text)

    def _reason_to_end(self, reason: str, notes: Sequence[Message]) -> str:
        """The reason not to ask again after an answer that is unusable for `reason`, or ""."""
        if sum(len(one["content"].encode()) for one in notes) > _NOTES_BYTES:
            return f"budget_exceeded_on_retry: too many malformed answers, the last: {reason}"
        return "" if self._may_repeat() else f"{reason}; not asked again: {self._stopped}"

    @property
    def _schema(self) -> tuple[str, Mapping[str, Any]]:
        asked = self._request.result_schema
        return (PATCH_NAME, WORKER_PATCH_SCHEMA) if asked is None else (RESULT_NAME, asked)

    def _ask(self) -> Document | TransportError:
        while True:
            shape = self._channel.shapes.get(self._model)
            body = payload(shape, self._model, self._messages, self._schema, self._limit)
            reply = self._channel.throttle.call(
                partial(self._try, body),
                self._to_wait_for,
                self._channel.cancelled,
                until=self._until,
                may_repeat=self._may_repeat,
            )
            if reply is None:
                text = "the provider stayed unavailable for the whole time of this dispatch"
                return TransportError(ProviderFault(FaultKind.OVERLOADED, text))
            if not isinstance(reply, TransportError):
                return reply
            new = without_refused(shape, reply, body)
            if new is None:
                return reply
            self._channel.shapes.replace(self._model, shape, new)

    def _try(self, body: Document) -> Document | TransportError:
        self._heard()
        left_s = max(0.01, self._until - time.monotonic())
        limit_s = min(left_s, self._channel.stall_s or left_s)
        try:
            watch = Watch(limit_s, self._channel.cancelled, self._heard)
            document = self._channel.send(body, watch)
        except TransportError as error:
            self._note(request=body, error=str(error))
            self._silent += error.fault.kind is FaultKind.SILENT
            if error.billed:
                self.bill.add_unknown()
            return error
        self._note(request=body, answer=document)
        self.bill.add(document)
        return document

    def _may_repeat(self) -> bool:
        """True if another request may follow. What was paid so far is booked first."""
        book = self._request.between_tries
        if book is not None and self.bill.usage != NOTHING_SPENT:
            self._stopped = book(self.bill.book())
        return not self._stopped

    def _to_wait_for(self, reply: Document | TransportError) -> ProviderFault | None:
        # Silence has already taken long, so a dispatch retries it only once.
        if not isinstance(reply, TransportError) or self._silent > 1:
            return None
        return reply.fault

    def _understood(self, reply: Document) -> Work | Unusable:
        self.text = answer_text(reply)[-_TEXT_CHARACTERS:]
        value = read_answer(reply, self._schema[1])
        if isinstance(value, Unusable):
            return value
        if self._request.result_schema is not None:
            return Work(value)
        try:
            return Work(value, patch_files(value, self._shown))
        except ScopeError as error:
            return Work(failure=FAILURE_REFUSED, error=str(error))
        except ValueError as error:
            return Unusable(str(error))

    def _note(self, **parts: Any) -> None:
        """Append a request and its answer to the dispatch's scratch folder, if it has one."""
        folder = self._request.scratch
        if folder is None:
            return
        with suppress(OSError, NotPlainError):  # a failed log entry stops no work
            folder.parent.mkdir(parents=True, exist_ok=True)
            line = json.dumps(redacted_value(parts)) + "\n"
            append_plain(folder.parent, f"{folder.name}/exchange.jsonl", line.encode())
