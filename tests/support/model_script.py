"""What a scripted model says, and when: conversations, steps, faults, and a request's neutral view.

Pure data and choices. Wire formats translate from and to it; the server serves and bills it. The
step is the number of model turns already in the request, so agents may run side by side and a
repeated request gets the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens of one answer; `input_tokens` counts neither cache reads nor cache writes."""

    input_tokens: int = 700
    output_tokens: int = 40
    cache_read: int = 300
    cache_write: int = 50


@dataclass(frozen=True, slots=True)
class Say:
    """The model answers with text and ends its turn."""

    text: str


@dataclass(frozen=True, slots=True)
class UseTool:
    """The model calls a tool; a request that does not offer it is refused, naming those offered."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Structured:
    """The model gives an object: by tool where the agent offers one for it, else as JSON text."""

    value: Json

    def spoken(self, tools: frozenset[str]) -> Say | UseTool:
        if "StructuredOutput" in tools:
            return UseTool("StructuredOutput", self.value)
        return Say(json.dumps(self.value))


Action = Say | UseTool | Structured


def read_file(path: str) -> UseTool:
    """Claude Code overwrites only files that its session has read."""
    return UseTool("Read", {"file_path": path})


def write_file(path: str, content: str) -> UseTool:
    """A relative path is relative to the agent's current directory."""
    return UseTool("Write", {"file_path": path, "content": content})


def shell(command: str) -> UseTool:
    return UseTool("Bash", {"command": command})


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in place of a step's answer, the first `times` times; None means for ever."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = 1
    message: str = "scripted fault"


@dataclass(frozen=True, slots=True)
class Step:
    """What the model does in one turn; without `usage` it costs what the scenario says."""

    action: Action
    usage: TokenUse | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whatever its wire format: what people said in it and how far it has come."""

    text: str
    turns: int
    tools: frozenset[str]
    model: str
    stream: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the model says where the pattern `match` is found in the system or user text.

    A bare action is a step without extras. The last step answers all later turns too.
    """

    match: str
    steps: Sequence[Step | Action]

    def step(self, turns: int) -> Step:
        chosen = self.steps[min(turns, len(self.steps) - 1)]
        return chosen if isinstance(chosen, Step) else Step(chosen)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The first conversation that matches answers; a request that none matches is refused."""

    conversations: Sequence[Conversation]
    usage: TokenUse = field(default_factory=TokenUse)

    def find(self, asked: Asked) -> tuple[str | None, Step]:
        """The conversation's pattern and the step that is its turn."""
        for talk in self.conversations:
            if re.search(talk.match, asked.text):
                return talk.match, talk.step(asked.turns)
        return None, Step(Say(""), fault=refusal("no conversation of the scenario matches"))


def refusal(why: str) -> Fault:
    return Fault(400, times=None, message=f"model server: {why}")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: one JSON document, or the (name, data) events of a stream."""

    document: Json = field(default_factory=dict)
    events: Sequence[tuple[str, Json]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class WireFormat(Protocol):
    """How requests are read and answers are written; no state and no sockets."""

    def read(self, body: Json) -> Asked: ...
    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply: ...
    def error(self, fault: Fault) -> Reply: ...
