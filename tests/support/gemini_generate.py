"""Google's generateContent wire format: requests read, answers written. No state and no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.support.model_script import Asked, Fault, Json, Reply, Say, TokenUse, UseTool

WHOLE = ":generateContent"
STREAM = ":streamGenerateContent"


class GeminiGenerate:
    """POST /v1beta/models/MODEL:generateContent and :streamGenerateContent."""

    ERRORS: ClassVar[Mapping[int, str]] = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
    }

    def read(self, path: str, body: Json) -> Asked:
        contents = body["contents"]
        people = [body.get("systemInstruction") or {}]
        people += [turn for turn in contents if turn.get("role") != "model"]
        declared = [d for tool in body.get("tools") or () for d in self._declared(tool)]
        return Asked(
            text="\n".join(p["text"] for turn in people for p in self._parts(turn) if "text" in p),
            turns=sum(turn.get("role") == "model" for turn in contents),
            tools=frozenset(declaration["name"] for declaration in declared),
            model=path.rpartition("/")[2].partition(":")[0],
            stream=path.endswith(STREAM),
        )

    @staticmethod
    def _parts(turn: Json) -> list[Json]:
        parts = turn.get("parts") or []
        return [parts] if isinstance(parts, dict) else list(parts)

    @staticmethod
    def _declared(tool: Json) -> list[Json]:
        return list(tool.get("functionDeclarations") or ())

    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply:
        content = {"role": "model", "parts": [self._part(action)]}
        document: dict[str, Any] = {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": self._counted(usage),
            "modelVersion": asked.model,
        }
        return Reply(events=[("", document)]) if asked.stream else Reply(document)

    @staticmethod
    def _part(action: Say | UseTool) -> Json:
        if isinstance(action, Say):
            return {"text": action.text}
        return {"functionCall": {"name": action.name, "args": action.arguments}}

    @staticmethod
    def _counted(usage: TokenUse) -> Json:
        """Here the prompt's tokens include those read from and written to the cache."""
        prompt = usage.input_tokens + usage.cache_read + usage.cache_write
        return {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": usage.cache_read,
            "candidatesTokenCount": usage.output_tokens - usage.reasoning,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": prompt + usage.output_tokens,
        }

    def error(self, fault: Fault) -> Reply:
        kind = self.ERRORS.get(fault.status, "INTERNAL")
        error = {"code": fault.status, "message": fault.message, "status": kind}
        return Reply({"error": error}, status=fault.status, headers=fault.headers)
