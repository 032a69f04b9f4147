"""The Anthropic Messages wire format: requests read, answers written. No state and no sockets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.support.model_script import Asked, Fault, Json, Reply, Say, TokenUse, UseTool


class AnthropicMessages:
    """POST /v1/messages of the Anthropic API, as far as agents use it."""

    ERRORS: ClassVar[Mapping[int, str]] = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def read(self, path: str, body: Json) -> Asked:
        del path
        messages = body["messages"]
        said = [m["content"] for m in messages if m["role"] == "user"]
        return Asked(
            text="\n".join(self._text(content) for content in [body.get("system"), *said]),
            turns=sum(m["role"] == "assistant" for m in messages),
            tools=frozenset(tool["name"] for tool in body.get("tools", ())),
            model=body["model"],
            stream=bool(body.get("stream")),
        )

    @staticmethod
    def _text(content: Any) -> str:
        """Tool results are left out, so that what a command printed never picks a script."""
        if isinstance(content, str):
            return content
        return "\n".join(part["text"] for part in content or () if part["type"] == "text")

    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply:
        block, opened, delta = self._block(action)
        counted = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        }
        stop = {"stop_reason": "end_turn" if isinstance(action, Say) else "tool_use"}
        message = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
        }
        if not asked.stream:
            return Reply(message | stop | {"content": [block], "usage": counted})
        # A stream opens before the model has written: only its end knows the output tokens.
        so_far = counted | {"output_tokens": 1}
        early: Json = {"content": [], "stop_reason": None, "usage": so_far}
        late = {"output_tokens": usage.output_tokens}
        events: list[tuple[str, Json]] = [
            ("message_start", {"message": {**message, **early}}),
            ("content_block_start", {"index": 0, "content_block": opened}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": stop, "usage": late}),
            ("message_stop", {}),
        ]
        return Reply(events=[(name, {"type": name, **data}) for name, data in events])

    @staticmethod
    def _block(action: Say | UseTool) -> tuple[Json, Json, Json]:
        """The content whole, as a stream opens it, and the delta that fills it."""
        if isinstance(action, Say):
            opened: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": action.text}
            return opened | {"text": action.text}, opened, delta
        call_id = f"toolu_{uuid.uuid4().hex}"
        opened = {"type": "tool_use", "id": call_id, "name": action.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(action.arguments)}
        return opened | {"input": action.arguments}, opened, delta

    def error(self, fault: Fault) -> Reply:
        kind = self.ERRORS.get(fault.status, "api_error")
        document = {"type": "error", "error": {"type": kind, "message": fault.message}}
        return Reply(document, status=fault.status, headers=fault.headers)
