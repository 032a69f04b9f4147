"""Defines every setting: name, kind, range and default, as dataclass fields with a `Kind`.

`sources` reads the values. A new setting is a field here and a row in docs/configuration.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.settings import kinds
from tools.settings.kinds import Command, Kind, one_of, whole_number


def _key(kind: Kind, default: Any = None) -> Any:
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The agents, and how to start them. None means the backend's default."""

    name: str = _key(kinds.TEXT, "claude")
    model: str | None = _key(kinds.TEXT)
    models: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"kind": kinds.MODELS}
    )
    command: tuple[str, ...] = _key(kinds.ARGV, ())
    output: str | None = _key(one_of("opencode", "gemini", "aider"))
    extra_args: tuple[str, ...] = _key(kinds.ARGUMENTS, ())
    env: tuple[str, ...] = _key(kinds.VARIABLES, ())
    timeout_s: float = _key(kinds.SECONDS, 1800.0)
    stall_s: float | None = _key(kinds.SECONDS)
    tier: int | None = _key(whole_number(1, 4))
    max_turns: int | None = _key(kinds.COUNT)
    recording: Path | None = field(default=None, metadata={"kind": kinds.PATH})
    match: str = _key(one_of("prompt", "item"), "prompt")
    base_url: str | None = _key(kinds.ADDRESS)
    api_key_env: str | None = _key(kinds.VARIABLE)
    is_local: bool = _key(kinds.SWITCH, False)
    max_retries: int | None = _key(whole_number(0))
    max_owned_bytes: int | None = _key(kinds.COUNT)


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """Runs of test commands."""

    env: tuple[str, ...] = _key(kinds.VARIABLES, ())
    timeout_s: float = _key(kinds.SECONDS, 900.0)
    red_first: str = _key(one_of("require", "record", "off"), "record")
    canary: bool = _key(kinds.SWITCH, True)
    flake_policy: str = _key(one_of("refuse", "allow"), "refuse")
    known_red: tuple[str, ...] = _key(kinds.ARGUMENTS, ())
    min_grade: str = _key(one_of("A", "B", "C"), "C")
    protected: tuple[str, ...] = _key(kinds.PATTERNS, ())
    integration: tuple[Command, ...] = _key(kinds.COMMANDS, ())
    survivors: str = _key(one_of("refuse", "allow"), "refuse")
    exclusive: bool = _key(kinds.SWITCH, False)


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """Preparation of the workspaces of agents and tests."""

    setup: tuple[Command, ...] = _key(kinds.COMMANDS, ())
    setup_reads: tuple[str, ...] = _key(kinds.PATTERNS, ())
    copy: tuple[str, ...] = _key(kinds.INSIDE, ())
    leftovers: tuple[str, ...] = _key(kinds.PATTERNS, ())
    root: Path | None = field(default=None, metadata={"kind": kinds.PATH})
    setup_timeout_s: float = _key(kinds.SECONDS, 900.0)


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """The review of each change by a second role."""

    mode: str = _key(one_of("policy", "always", "off"), "policy")
    max_diff_bytes: int = _key(kinds.COUNT, 200_000)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The phases of every item, as tables for `driver.pipeline`. () means the classic order."""

    prompt_dir: str = _key(kinds.FOLDER, "prompts")
    phase: tuple[Mapping[str, Any], ...] = _key(kinds.PHASES, ())


@dataclass(frozen=True, slots=True)
class ShipSettings:
    """The destination of verified work, and the author of its commits."""

    mode: str = _key(one_of("branch", "current", "none"), "branch")
    target: str | None = _key(kinds.TEXT)
    remote: str | None = _key(kinds.REMOTE)
    commit: str = _key(one_of("per-item", "batch"), "per-item")
    sign: str = _key(one_of("auto", "always", "never"), "auto")
    bot_name: str = _key(kinds.TEXT, "Tidegate")
    bot_email: str = _key(kinds.TEXT, "tidegate@localhost")
    hooks: str = _key(one_of("run", "off"), "run")
    hook_timeout_s: float = _key(kinds.SECONDS, 600.0)
    pr: str = _key(one_of("draft", "ready", "none"), "none")
    pr_command: tuple[str, ...] = _key(kinds.ARGV, ())


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Limits of a run. None means no limit."""

    max_workers: int | None = _key(kinds.COUNT)  # None means DEFAULT_WIDTH of driver.wave.run
    max_parallel_tests: int | None = _key(kinds.COUNT)
    max_wave_tokens: int | None = _key(kinds.TOKENS)
    max_daily_tokens: int | None = _key(kinds.TOKENS)
    max_wave_usd: float | None = _key(kinds.USD)
    max_daily_usd: float | None = _key(kinds.USD)
    max_wave_minutes: float | None = _key(kinds.MINUTES)
    max_daily_minutes: float | None = _key(kinds.MINUTES)
    max_wave_dispatches: int | None = _key(kinds.TOKENS)
    max_daily_dispatches: int | None = _key(kinds.TOKENS)
    default_dispatch_tokens: int = _key(whole_number(1, 10**12), 200_000)
    allow_unpriced: bool = _key(kinds.SWITCH, False)
    wave_duration_minutes: float = _key(kinds.MINUTES, 60.0)
    lease_s: float = _key(kinds.SECONDS, 120.0)
    halt_grace_s: float = _key(kinds.SECONDS, 5.0)
    halt_push_s: float = _key(kinds.SECONDS, 10.0)
    give_up_s: float = _key(kinds.SECONDS, 1800.0)
    max_attempts_per_item: int = _key(kinds.COUNT, 3)
    retry_backoff_s: float = _key(kinds.WAIT, 60.0)
    retry_backoff_max_s: float = _key(kinds.WAIT, 3600.0)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The commit of STATE.md and BUILDLOG.md after each cycle."""

    commit: bool = _key(kinds.SWITCH, False)
    branch: str = _key(kinds.BRANCH, "tidegate/state")
    push: bool = _key(kinds.SWITCH, False)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit after each wave."""

    propose: bool = _key(kinds.SWITCH, False)


REVIEW_BACKEND = "review.backend"
SECTIONS: Mapping[str, type[Any]] = {
    "backend": BackendSettings,
    "verify": VerifySettings,
    "workspace": WorkspaceSettings,
    "review": ReviewSettings,
    REVIEW_BACKEND: BackendSettings,
    "pipeline": PipelineSettings,
    "ship": ShipSettings,
    "limits": LimitsSettings,
    "checkpoint": CheckpointSettings,
    "audit": AuditSettings,
}
STATE_DIR = "state_dir"
PRICES = "prices"
_FIELDS = {
    f"{section}.{one.name}": one for section, shape in SECTIONS.items() for one in fields(shape)
}
KINDS: Mapping[str, Kind] = {STATE_DIR: kinds.PATH, PRICES: kinds.PRICE_TABLE} | {
    name: one.metadata["kind"] for name, one in _FIELDS.items()
}
OPTIONAL = frozenset(name for name, one in _FIELDS.items() if one.default is None)
