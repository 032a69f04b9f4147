"""OpenAI's Responses wire format, as Codex speaks it. No state and no sockets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.model_script import Asked, Fault, Json, Reply, Say, TokenUse, UseTool
from tests.support.openai_chat import OpenAiChat, text_of

# What the model itself said, as the next request repeats it: one item for each scripted turn.
SPOKEN = ("function_call", "custom_tool_call")


class OpenAiResponses:
    """POST /v1/responses, whole or as a stream of server-sent events."""

    def read(self, path: str, body: Json) -> Asked:
        del path
        given = body["input"]
        items: list[Any] = [given] if isinstance(given, str) else list(given)
        told = [item for item in items if isinstance(item, str) or self._from_people(item)]
        texts = [one if isinstance(one, str) else text_of(one["content"]) for one in told]
        more = [tool for item in items if "tools" in item for tool in item["tools"]]
        return Asked(
            text="\n".join([body.get("instructions") or "", *texts]),
            turns=sum(self._from_model(item) for item in items if isinstance(item, dict)),
            tools=frozenset(self._names([*(body.get("tools") or ()), *more])),
            model=body["model"],
            stream=bool(body.get("stream")),
        )

    @staticmethod
    def _from_people(item: Json) -> bool:
        kind = item.get("type", "message")
        return kind == "message" and item["role"] != "assistant"

    @staticmethod
    def _from_model(item: Json) -> bool:
        return item.get("type") in SPOKEN or item.get("role") == "assistant"

    @staticmethod
    def _names(tools: list[Json]) -> Iterator[str]:
        for tool in tools:
            yield tool.get("name") or tool["type"]

    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply:
        item = self._item(action)
        opened = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": 1,
            "model": asked.model,
            "status": "in_progress",
            "output": [],
        }
        whole = {"status": "completed", "output": [item], "usage": self._counted(usage)}
        closed = opened | whole
        if not asked.stream:
            return Reply(closed)
        events: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": opened}),
            ("response.output_item.added", {"output_index": 0, "item": self._begun(item)}),
            *self._deltas(item, action),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": closed}),
        ]
        return Reply(
            events=[
                (name, {"type": name, "sequence_number": n, **data})
                for n, (name, data) in enumerate(events)
            ]
        )

    @staticmethod
    def _item(action: Say | UseTool) -> dict[str, Any]:
        ids = {"id": f"item_{uuid.uuid4().hex}", "status": "completed"}
        if isinstance(action, Say):
            part = {"type": "output_text", "text": action.text, "annotations": []}
            return ids | {"type": "message", "role": "assistant", "content": [part]}
        call = ids | {"call_id": f"call_{uuid.uuid4().hex}", "name": action.name}
        if isinstance(action.arguments, str):
            return call | {"type": "custom_tool_call", "input": action.arguments}
        return call | {"type": "function_call", "arguments": json.dumps(action.arguments)}

    @staticmethod
    def _begun(item: dict[str, Any]) -> dict[str, Any]:
        empty: dict[str, Any] = {"content": [], "arguments": "", "input": ""}
        return item | {key: empty[key] for key in empty if key in item} | {"status": "in_progress"}

    @staticmethod
    def _deltas(item: Json, action: Say | UseTool) -> list[tuple[str, dict[str, Any]]]:
        if isinstance(action, UseTool):  # a call's item.done has it all; clients wait for that
            return []
        where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        return [("response.output_text.delta", {**where, "delta": action.text})]

    @staticmethod
    def _counted(usage: TokenUse) -> Json:
        """Here the input's tokens include those read from and written to the cache."""
        taken = usage.input_tokens + usage.cache_read + usage.cache_write
        return {
            "input_tokens": taken,
            "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": taken + usage.output_tokens,
        }

    def error(self, fault: Fault) -> Reply:
        return OpenAiChat().error(fault)
