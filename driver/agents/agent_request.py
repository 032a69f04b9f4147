"""The requests to agents: to a builder, to an agent that only reads, and to a reviewer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.agents.review_verdict import VERDICT_SCHEMA
from driver.backend_api.driver import ROLE_VERIFY, ROLE_WORKER
from driver.domain.results import BUILD, REPAIR, REVIEW
from driver.pipeline.definition import Phase
from driver.run_state.context import AssignedBackend, ItemRun
from state_store.values.lazy_dataclass import dataclass, replace

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

    `phase` is the phase in events, journal and ledger; `shown` is the phase shown to the agent if
    it differs. `number` counts the requests of the phase; `attempts` counts the attempts at the
    item's work if it differs. `retries` are further tries after a try that did not finish. `tree`
    is the tree for an agent that only reads. Its answer must fit `schema`, if there is one, and may
    be in the file `artifact`. A reviewer's answer must repeat `nonce`.
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
        """The name of the folder for the agent's output."""
        builds = self.phase in (BUILD, REPAIR)
        return f"agent-{self.number}" if builds else f"{self.phase}-{self.number}"

    @property
    def shown_phase(self) -> str:
        """The phase shown to the agent. A replay finds the dispatch by it."""
        return self.shown or self.phase


def build_request(item: ItemRun, phase: Phase, word: str, number: int, prompt: str) -> AgentRequest:
    """The request to an agent that writes; `word` is its phase in events, journal and ledger."""
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
    """The request to an agent that reads `tree` and answers in text. A backend that sees no files
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
    """The request to a reviewer of `tree`."""
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
