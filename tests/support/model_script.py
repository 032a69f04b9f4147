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
    """Tokens of one answer; `input_tokens` counts neither cache reads nor cache writes.

    `reasoning` is the part of `output_tokens` that was thought and not said.
    """

    input_tokens: int = 700
    output_tokens: int = 40
    cache_read: int = 300
    cache_write: int = 50
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Say:
    """The model answers with text and ends its turn."""

    text: str


@dataclass(frozen=True, slots=True)
class UseTool:
    """The model calls a tool; a request that does not offer it is refused, naming those offered.

    A text as arguments is a free-form call, which OpenAI's Responses API has.
    """

    name: str
    arguments: Json | str


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
    """What happens in place of a step's answer, the first `times` times; None means for ever.

    Without more it is an error of the wire format with this status. `body` is sent instead as it
    is; `delay_s` is waited first. `cut_after` sends that many bytes of the true answer and then
    breaks the connection; `hangs` sends nothing until the client or the server leaves. What the
    model did say is billed: a cut answer is, an error or silence is not.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = 1
    message: str = "scripted fault"
    body: str | None = None
    content_type: str = "application/json"
    delay_s: float = 0.0
    cut_after: int | None = None
    hangs: bool = False

    @property
    def answers(self) -> bool:
        """True when the model did answer, though not all of it arrives."""
        return self.cut_after is not None


@dataclass(frozen=True, slots=True)
class Step:
    """What the model does in one turn; without `usage` it costs what the scenario says."""

    action: Action
    usage: TokenUse | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whatever its wire format: what people said in it and how far it has come.

    `told_usage` is False where the client did not ask the stream to tell what it used.
    """

    text: str
    turns: int
    tools: frozenset[str]
    model: str
    stream: bool
    told_usage: bool = True


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
    """The first conversation that matches answers; a request that none matches is refused.

    `aside` answers a request without tools whose step needs one: a title or a topic that some
    agents ask for on their own account.
    """

    conversations: Sequence[Conversation]
    usage: TokenUse = field(default_factory=TokenUse)
    aside: Say | None = None

    def find(self, asked: Asked) -> tuple[str | None, Step]:
        """The conversation's pattern and the step that is its turn."""
        for talk in self.conversations:
            if re.search(talk.match, asked.text):
                return talk.match, self._aside(asked, talk.step(asked.turns))
        return None, Step(Say(""), fault=refusal("no conversation of the scenario matches"))

    def _aside(self, asked: Asked, step: Step) -> Step:
        if self.aside is None or asked.tools or not isinstance(step.action, UseTool):
            return step
        return Step(self.aside)


def refusal(why: str) -> Fault:
    return Fault(400, times=None, message=f"model server: {why}")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: one JSON document, or the events of a stream.

    An event is a name, "" for none, and its data; data that is a text is sent as it is.
    """

    document: Json = field(default_factory=dict)
    events: Sequence[tuple[str, Json | str]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def payload(self) -> bytes:
        if not self.events:
            return json.dumps(self.document).encode()
        return "".join(_event(name, data) for name, data in self.events).encode()

    @property
    def content_type(self) -> str:
        return "text/event-stream" if self.events else "application/json"


def _event(name: str, data: Json | str) -> str:
    said = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {said}\n\n" if name else f"data: {said}\n\n"


class WireFormat(Protocol):
    """How requests are read and answers are written; no state and no sockets."""

    def read(self, path: str, body: Json) -> Asked: ...
    def answer(self, asked: Asked, action: Say | UseTool, usage: TokenUse) -> Reply: ...
    def error(self, fault: Fault) -> Reply: ...
