"""OpenAI's Chat Completions: requests read, answers written. No state and no sockets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.support.model_script import Asked, Fault, Json, Reply, Say, TokenUse, UseTool


class OpenAiChat:
    """POST /v1/chat/completions, as far as agents and completion backends use it."""

    ERRORS: ClassVar[Mapping[int, str]] = {
        401: "authentication_error",
        429: "rate_limit_error",
        500: "server_error",
        503: "server_error",
    }

    def read(self, path: str, body: Json) -> Asked:
        del path
        messages = body["messages"]
        said = [m.get("content") for m in messages if m["role"] in ("system", "developer", "user")]
        stream = bool(body.get("stream"))
        wanted = (body.get("stream_options") or {}).get("include_usage")
        return Asked(
            text="\n".join(text_of(content) for content in said),
            turns=sum(m["role"] == "assistant" for m in messages),
            tools=frozenset(tool["function"]["name"] for tool in body.get("tools") or ()),
            model=body["model"],
            stream=stream,
            told_usage=bool(wanted) or not stream,
        )

    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply:
        message = self._message(action)
        reason = "stop" if isinstance(action, Say) else "tool_calls"
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": 1, "model": asked.model}
        counted = {"usage": self._counted(usage)}
        if not asked.stream:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            document = head | {"object": "chat.completion", "choices": [choice]} | counted
            return Reply(document)
        head["object"] = "chat.completion.chunk"
        deltas = [(self._streamed(message), None), ({}, reason)]
        chunks: list[Json] = [
            head | {"choices": [{"index": 0, "delta": delta, "finish_reason": why}]}
            for delta, why in deltas
        ]
        if asked.told_usage:
            chunks.append(head | {"choices": []} | counted)
        return Reply(events=[*(("", chunk) for chunk in chunks), ("", "[DONE]")])

    @staticmethod
    def _message(action: Say | UseTool) -> dict[str, Any]:
        if isinstance(action, Say):
            return {"role": "assistant", "content": action.text}
        function = {"name": action.name, "arguments": json.dumps(action.arguments)}
        call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    @staticmethod
    def _streamed(message: dict[str, Any]) -> dict[str, Any]:
        calls = message.get("tool_calls", ())
        numbered = [call | {"index": n} for n, call in enumerate(calls)]
        return message | ({"tool_calls": numbered} if numbered else {})

    @staticmethod
    def _counted(usage: TokenUse) -> Json:
        """Here the prompt's tokens include those read from and written to the cache."""
        prompt = usage.input_tokens + usage.cache_read + usage.cache_write
        return {
            "prompt_tokens": prompt,
            "completion_tokens": usage.output_tokens,
            "total_tokens": prompt + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }

    def error(self, fault: Fault) -> Reply:
        kind = self.ERRORS.get(fault.status, "invalid_request_error")
        error = {"message": fault.message, "type": kind, "param": None, "code": None}
        return Reply({"error": error}, status=fault.status, headers=fault.headers)


def text_of(content: Any) -> str:
    """The words of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())
