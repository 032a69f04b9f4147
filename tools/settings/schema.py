"""Every setting: its name, kind, range and default, as dataclasses whose fields carry a `Kind`.

Knows nothing of where values come from. A new setting is one field here and one row in
docs/configuration.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.settings.kinds import (
    ADDRESS,
    ARGUMENTS,
    ARGV,
    BRANCH,
    COMMANDS,
    COUNT,
    FOLDER,
    INSIDE,
    MINUTES,
    MODELS,
    PATH,
    PATTERNS,
    PHASES,
    PRICE_TABLE,
    REMOTE,
    SECONDS,
    SWITCH,
    TEXT,
    TOKENS,
    USD,
    VARIABLE,
    VARIABLES,
    WAIT,
    Command,
    Kind,
    one_of,
    whole_number,
)


def _key(kind: Kind, default: Any = None) -> Any:
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Which agents do the work and how they are started; None means the backend's own default."""

    name: str = _key(TEXT, "claude")
    model: str | None = _key(TEXT)
    models: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"kind": MODELS}
    )
    command: tuple[str, ...] = _key(ARGV, ())
    output: str | None = _key(one_of("opencode", "gemini", "aider"))
    extra_args: tuple[str, ...] = _key(ARGUMENTS, ())
    env: tuple[str, ...] = _key(VARIABLES, ())
    timeout_s: float = _key(SECONDS, 1800.0)
    stall_s: float | None = _key(SECONDS)
    tier: int | None = _key(whole_number(1, 4))
    max_turns: int | None = _key(COUNT)
    recording: Path | None = field(default=None, metadata={"kind": PATH})
    match: str = _key(one_of("prompt", "item"), "prompt")
    base_url: str | None = _key(ADDRESS)
    api_key_env: str | None = _key(VARIABLE)
    is_local: bool = _key(SWITCH, False)
    max_retries: int | None = _key(whole_number(0))
    max_owned_bytes: int | None = _key(COUNT)


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """How test commands run."""

    env: tuple[str, ...] = _key(VARIABLES, ())
    timeout_s: float = _key(SECONDS, 900.0)
    red_first: str = _key(one_of("require", "record", "off"), "record")
    canary: bool = _key(SWITCH, True)
    flake_policy: str = _key(one_of("refuse", "allow"), "refuse")
    protected: tuple[str, ...] = _key(PATTERNS, ())
    integration: tuple[Command, ...] = _key(COMMANDS, ())
    survivors: str = _key(one_of("refuse", "allow"), "refuse")


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """How the places where agents and tests work are prepared."""

    setup: tuple[Command, ...] = _key(COMMANDS, ())
    copy: tuple[str, ...] = _key(INSIDE, ())
    root: Path | None = field(default=None, metadata={"kind": PATH})
    setup_timeout_s: float = _key(SECONDS, 900.0)


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """Whether a second role reads each change."""

    mode: str = _key(one_of("policy", "always", "off"), "policy")
    max_diff_bytes: int = _key(COUNT, 200_000)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What every item goes through, as tables that `driver.pipeline` reads; () is the classic
    order."""

    prompt_dir: str = _key(FOLDER, "prompts")
    phase: tuple[Mapping[str, Any], ...] = _key(PHASES, ())


@dataclass(frozen=True, slots=True)
class ShipSettings:
    """Where verified work goes and under whose name it is committed."""

    mode: str = _key(one_of("branch", "current", "none"), "branch")
    target: str | None = _key(TEXT)
    remote: str | None = _key(REMOTE)
    commit: str = _key(one_of("per-item", "batch"), "per-item")
    sign: str = _key(one_of("auto", "always", "never"), "auto")
    bot_name: str = _key(TEXT, "Tidegate")
    bot_email: str = _key(TEXT, "tidegate@localhost")
    hooks: str = _key(one_of("run", "off"), "run")
    hook_timeout_s: float = _key(SECONDS, 600.0)
    pr: str = _key(one_of("draft", "ready", "none"), "none")
    pr_command: tuple[str, ...] = _key(ARGV, ())


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Bounds on a run; None is no bound of the user's."""

    max_workers: int | None = _key(COUNT)
    max_parallel_tests: int | None = _key(COUNT)
    max_wave_tokens: int | None = _key(TOKENS)
    max_daily_tokens: int | None = _key(TOKENS)
    max_wave_usd: float | None = _key(USD)
    max_daily_usd: float | None = _key(USD)
    max_wave_minutes: float | None = _key(MINUTES)
    max_daily_minutes: float | None = _key(MINUTES)
    max_wave_dispatches: int | None = _key(TOKENS)
    max_daily_dispatches: int | None = _key(TOKENS)
    default_dispatch_tokens: int = _key(whole_number(1, 10**12), 200_000)
    allow_unpriced: bool = _key(SWITCH, False)
    wave_duration_minutes: float = _key(MINUTES, 60.0)
    lease_s: float = _key(SECONDS, 120.0)
    halt_grace_s: float = _key(SECONDS, 5.0)
    halt_push_s: float = _key(SECONDS, 10.0)
    give_up_s: float = _key(SECONDS, 1800.0)
    max_attempts_per_item: int = _key(COUNT, 3)
    retry_backoff_s: float = _key(WAIT, 60.0)
    retry_backoff_max_s: float = _key(WAIT, 3600.0)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Whether the files for people are committed after each cycle, and where."""

    commit: bool = _key(SWITCH, False)
    branch: str = _key(BRANCH, "tidegate/state")
    push: bool = _key(SWITCH, False)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What becomes of the findings of the audit after each wave."""

    propose: bool = _key(SWITCH, False)


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
KINDS: Mapping[str, Kind] = {STATE_DIR: PATH, PRICES: PRICE_TABLE} | {
    f"{section}.{key.name}": key.metadata["kind"]
    for section, shape in SECTIONS.items()
    for key in fields(shape)
}
OPTIONAL = frozenset(
    f"{section}.{key.name}"
    for section, shape in SECTIONS.items()
    for key in fields(shape)
    if key.default is None
)
