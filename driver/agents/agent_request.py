"""The requests to agents: of a builder, of an agent that only reads, and of a reviewer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.agents.review_verdict import VERDICT_SCHEMA
from driver.backend_api.driver import ROLE_VERIFY, ROLE_WORKER
from driver.domain.results import BUILD, REPAIR, REVIEW
from driver.pipeline.definition import Phase
from driver.run_state.context import AssignedBackend, ItemRun

TEXT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
_ANSWER = "answer.md"


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A request to an agent about an item.

    `phase` is the word of events, journal and ledger, `shown` the one that the agent is shown where
    that is another. `number` counts the requests of the phase, `attempts` those at the item's work
    where that is another number. `retries` are further tries where one did not come to its end.
    An agent that only reads is given the tree to read; its answer has to fit `schema`, where there
    is one, and may stand in the file `artifact`; a reviewer's has to repeat `nonce`.
    """

    number: int
    phase: str
    prompt: str
    backend: AssignedBackend
    effort: str
    model: str | None = None
    shown: str = ""
    timeout_s: float | None = None
    retries: int = 0
    attempts: int | None = None
    tree: str | None = None
    schema: Mapping[str, Any] | None = None
    artifact: Path | None = None
    nonce: str = ""

    @property
    def role(self) -> str:
        """The role that decides the backend's model and rights."""
        return ROLE_VERIFY if self.tree else ROLE_WORKER

    @property
    def folder(self) -> str:
        """The name of the folder for all that the agent prints."""
        builds = self.phase in (BUILD, REPAIR)
        return f"agent-{self.number}" if builds else f"{self.phase}-{self.number}"

    @property
    def shown_phase(self) -> str:
        """The phase as the agent is shown it; a replay finds the dispatch by that."""
        return self.shown or self.phase


def build_request(item: ItemRun, phase: Phase, word: str, number: int, prompt: str) -> AgentRequest:
    """The request of an agent that writes; `word` is that of events, journal and ledger."""
    backend = item.wave.backend_of(phase)
    own = None if phase.backend is not None else item.spec.model
    return AgentRequest(
        number=number,
        phase=word,
        prompt=prompt,
        backend=backend,
        model=backend.model or own,
        shown=phase.name,
        effort=phase.effort or item.spec.effort,
        timeout_s=phase.timeout_s,
        retries=phase.retries,
    )


def reading_request(item: ItemRun, phase: Phase, tree: str, prompt: str) -> AgentRequest:
    """The request of an agent that reads `tree` and answers in text; a backend that sees no files
    answers with an object."""
    request = build_request(item, phase, phase.name, 1, prompt)
    sees_files = request.backend.driver.probe_capabilities().worker_filesystem_access
    return replace(
        request,
        tree=tree,
        schema=None if sees_files else TEXT_SCHEMA,
        artifact=item.scratch / request.folder / _ANSWER,
    )


def review_request(
    item: ItemRun, reviewer: AssignedBackend, number: int, tree: str, prompt: str, nonce: str
) -> AgentRequest:
    """The request of a reviewer of `tree`."""
    phase = item.pipeline.review
    return AgentRequest(
        number=number,
        phase=REVIEW,
        prompt=prompt,
        backend=reviewer,
        model=reviewer.model,
        effort=(phase.effort if phase else None) or item.spec.effort,
        timeout_s=phase.timeout_s if phase else None,
        retries=phase.retries if phase else 0,
        tree=tree,
        schema=VERDICT_SCHEMA,
        nonce=nonce,
    )
