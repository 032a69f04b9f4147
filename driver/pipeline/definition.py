"""A pipeline as data: its phases in order. No I/O; `tables` reads it from a configuration. An agent
phase in a review's `repair` runs only there. Every other phase is a step of each item, in the
written order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from state_store.values.lazy_dataclass import dataclass, field
from tools.settings.kinds import Command
from tools.settings.schema import BackendSettings

SETUP, AGENT, GATE, REVIEW, PUBLISH = "setup", "agent", "gate", "review", "publish"
KINDS = (SETUP, AGENT, GATE, REVIEW, PUBLISH)

WRITE_WORKTREE, READ_ONLY = "write-worktree", "read-only"
PERMISSIONS = (WRITE_WORKTREE, READ_ONLY)

HOST, REQUIRE = "host", "require"
HERMETIC = (HOST, REQUIRE)

PROOF = "proof"
IMPLEMENT, ADDRESS, DOCS, PR_DESCRIPTION = "implement", "address", "docs", "pr-description"


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase. With None, the item, its backend or the configuration decides. `prompt` is the path
    of a file in the repository. `writes` are patterns of paths from its top, () for no limit.
    `retries` are further dispatches of an agent that did not finish."""

    name: str
    kind: str
    prompt: str | None = None
    repair: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    writes: tuple[str, ...] = ()
    backend: BackendSettings | None = field(default=None, hash=False)
    model: str | None = None
    effort: str | None = None
    timeout_s: float | None = None
    retries: int = 0
    permissions: str = WRITE_WORKTREE
    requires_clean_tree: bool = False
    hermetic: str = HOST

    @property
    def reads_only(self) -> bool:
        """True if its agent works on a temporary copy."""
        return self.permissions == READ_ONLY

    @property
    def edits(self) -> bool:
        """True if the phase may change the item's files."""
        return self.kind == AGENT and not self.reads_only

    @property
    def artifact(self) -> str:
        """The file name of a read-only phase's answer."""
        return "pr.md" if self.name == PR_DESCRIPTION else f"{self.name}.md"

    @property
    def backend_key(self) -> str:
        """The key of the phase's backend. Phases with the same key share a backend; "" is the
        default."""
        return digest_of(backend_json(self.backend)) if self.backend else ""

    @property
    def config_hash(self) -> str:
        """The digest of the phase's settings."""
        return digest_of(to_json(self))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Phases in the written order; `explicit` if the user wrote them."""

    phases: tuple[Phase, ...]
    explicit: bool = True

    @property
    def steps(self) -> tuple[Phase, ...]:
        """The phases of every item, in order."""
        called = {name for phase in self.phases for name in phase.repair}
        return tuple(p for p in self.phases if p.kind != AGENT or p.name not in called)

    @property
    def first_agent(self) -> Phase:
        """The phase whose agent does the item's work, and repairs it after a red gate."""
        return next(phase for phase in self.steps if phase.edits)

    @property
    def review(self) -> Phase | None:
        """The step in which another role reads the work."""
        return next((phase for phase in self.steps if phase.kind == REVIEW), None)

    @property
    def bare_proof(self) -> Phase:
        """The item's own test, for a pipeline without a gate. Its name is never the name of a gate
        that has not run."""
        return Phase(PROOF if self.named(GATE) else GATE, GATE)

    @property
    def publishes(self) -> bool:
        """True if verified work is shipped."""
        return any(phase.kind == PUBLISH for phase in self.steps)

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands of its gates, without the item's own test."""
        return tuple(c for phase in self.steps if phase.kind == GATE for c in phase.commands)

    @property
    def config_hash(self) -> str:
        """The digest of all phases."""
        return digest_of([to_json(phase) for phase in self.phases])

    def named(self, name: str) -> Phase | None:
        """The phase with this name; None without it."""
        return next((phase for phase in self.phases if phase.name == name), None)

    def called(self, name: str) -> Phase:
        """A phase in `repair`: the pipeline's own phase, else the phase that the word
        stands for."""
        kind = GATE if name == GATE else AGENT
        return self.named(name) or Phase(name, kind)


CLASSIC = Pipeline(
    (
        Phase(IMPLEMENT, AGENT),
        Phase(GATE, GATE),
        Phase(REVIEW, REVIEW, repair=(ADDRESS, GATE)),
        Phase(PUBLISH, PUBLISH),
    ),
    explicit=False,
)


def to_json(phase: Phase) -> dict[str, Any]:
    """A phase with its configuration keys, without empty values."""
    values = {name: getattr(phase, name) for name in Phase.__slots__ if name != "backend"}
    backend = {"backend": backend_json(phase.backend)} if phase.backend else {}
    return {key: value for key, value in (values | backend).items() if value not in (None, (), {})}


def backend_json(backend: BackendSettings | None) -> dict[str, Any]:
    """A backend's settings as JSON."""
    if backend is None:
        return {}
    values = {name: getattr(backend, name) for name in BackendSettings.__slots__}
    return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items() if v is not None}


def digest_of(value: object) -> str:
    """A digest that does not depend on the order of keys."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
