"""Every setting: its name, type, range and default, as dataclasses whose fields carry a `Kind`.

Knows nothing of where values come from. A new setting is one field here and one row in
docs/configuration.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any

ROLES = ("worker", "setup", "verify")
WEEK_S = 604_800.0
_MOST_USD = 1e9
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True}
_SWITCHES |= {"false": False, "no": False, "off": False, "0": False}

Command = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a setting takes.

    `accept` turns a raw value into the kept one or raises ValueError; `says` completes "must be
    ..."; `parse` reads text from the environment, None where the environment cannot set it;
    a `private` value is not repeated in messages.
    """

    says: str
    accept: Callable[[Any], Any]
    parse: Callable[[str], Any] | None = None
    private: bool = False


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _text(raw: Any) -> str:
    _require(isinstance(raw, str) and bool(raw.strip()) and raw.isprintable())
    _require(not raw.startswith("-"))  # or a program might take it for an option
    return str(raw)


def _path(raw: Any) -> Path:
    return Path(_text(str(raw) if isinstance(raw, Path) else raw))


def _switch(raw: Any) -> bool:
    _require(isinstance(raw, bool))
    return bool(raw)


def _seconds(raw: Any) -> float:
    _require(isinstance(raw, int | float) and not isinstance(raw, bool))
    _require(0 < raw <= WEEK_S)  # beyond some weeks the platforms' own timers overflow
    return float(raw)


def _wait(raw: Any) -> float:
    return 0.0 if raw == 0 and not isinstance(raw, bool) else _seconds(raw)


def _amount(raw: Any) -> float:
    _require(isinstance(raw, int | float) and not isinstance(raw, bool))
    _require(math.isfinite(raw) and 0 <= raw <= _MOST_USD)
    return float(raw)


def _minutes(raw: Any) -> float:
    return _seconds(raw * 60 if isinstance(raw, int | float) and raw is not True else raw) / 60


def _variable(raw: Any) -> str:
    _require(_VARIABLE.fullmatch(_text(raw)) is not None)
    return str(raw)


def _address(raw: Any) -> str:
    _require(_text(raw).startswith(("http://", "https://")))
    return str(raw)


def _inside(raw: Any) -> str:
    parts = PurePosixPath(_text(raw).replace("\\", "/"))
    outside = parts.is_absolute() or PureWindowsPath(raw).drive or ".." in parts.parts
    _require(not outside and parts.name != "")
    return parts.as_posix()


def inside_one(raw: Any) -> str:
    """A path inside the repository; ValueError for any other."""
    return _inside(raw)


def _tables(raw: Any) -> tuple[Mapping[str, Any], ...]:
    _require(isinstance(raw, list | tuple) and all(isinstance(one, Mapping) for one in raw))
    return tuple(raw)


def _pattern(raw: Any) -> str:
    text = _text(raw)
    _require(not text.startswith("/") and "\\" not in text and ".." not in text.split("/"))
    return text


def _branch(raw: Any) -> str:
    name = _text(raw)
    parts = name.split("/")
    _require(not re.search(r"[\s~^:?*\[\\]|\.\.|@\{|//", name) and name != "@")
    _require(not any(p.startswith(".") or p.endswith((".", ".lock")) or not p for p in parts))
    return name


def _argument(raw: Any) -> str:
    _require(isinstance(raw, str) and "\0" not in raw)
    return str(raw)


def _argv(raw: Any) -> tuple[str, ...]:
    _require(isinstance(raw, list | tuple) and bool(raw) and bool(raw[0]))
    return tuple(_argument(word) for word in raw)


def _argv_or_none(raw: Any) -> tuple[str, ...]:
    return () if raw in ([], ()) else _argv(raw)


def _command(raw: Any) -> Command:
    if not isinstance(raw, str):
        return _argv(raw)
    _require(bool(raw.strip()) and "\0" not in raw)
    return raw


def _models(raw: Any) -> Mapping[str, str]:
    _require(isinstance(raw, Mapping) and set(raw) <= set(ROLES))
    return MappingProxyType({role: _text(model) for role, model in raw.items()})


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """USD per 1M tokens; a `cached` of None is unknown."""

    input: float
    output: float
    cached: float | None = None


def _prices(raw: Any) -> Mapping[str, TokenPrice]:
    _require(isinstance(raw, Mapping))
    return MappingProxyType({_text(model): _price(price) for model, price in raw.items()})


def _price(raw: Any) -> TokenPrice:
    _require(isinstance(raw, Mapping) and {"input", "output"} <= set(raw))
    _require(set(raw) <= {"input", "output", "cached"})
    for amount in raw.values():
        _require(isinstance(amount, int | float) and not isinstance(amount, bool))
        _require(math.isfinite(amount) and amount >= 0)
    return TokenPrice(**{name: float(amount) for name, amount in raw.items()})


def _list_of(accept: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def accept_all(raw: Any) -> tuple[Any, ...]:
        _require(isinstance(raw, list | tuple))
        return tuple(accept(one) for one in raw)

    return accept_all


def _parse_switch(text: str) -> bool:
    _require(text.strip().lower() in _SWITCHES)
    return _SWITCHES[text.strip().lower()]


def whole_number(low: int, high: int | None = None) -> Kind:
    """A whole number from `low` to `high`; 5e6 is one, True and "5" are not."""

    def accept(raw: Any) -> int:
        _require(isinstance(raw, int | float) and not isinstance(raw, bool))
        _require(math.isfinite(raw) and raw == int(raw) and raw >= low)
        _require(high is None or raw <= high)
        return int(raw)

    bound = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Kind(f"a whole number {bound}", accept, int)


def one_of(*names: str) -> Kind:
    """One of a few words."""

    def accept(raw: Any) -> str:
        _require(isinstance(raw, str) and raw in names)
        return str(raw)

    return Kind(" or ".join(f'"{name}"' for name in names), accept, str)


TEXT = Kind("a line of text that does not start with -", _text, str)
REMOTE = Kind("the name or address of a git remote", _text, str, private=True)
BRANCH = Kind("the name of a branch", _branch, str)
PATH = Kind("a path", _path, str)
SWITCH = Kind("true or false", _switch, _parse_switch)
SECONDS = Kind(f"a number of seconds above 0 and at most {WEEK_S:.0f}", _seconds, float)
WAIT = Kind(f"a number of seconds from 0 to {WEEK_S:.0f}", _wait, float)
VARIABLE = Kind("the name of an environment variable", _variable, str, private=True)
ADDRESS = Kind("an http or https address", _address, str, private=True)
ARGV = Kind("a list of arguments, the program first", _argv_or_none)
ARGUMENTS = Kind("a list of texts", _list_of(_argument))
VARIABLES = Kind(
    "a list of names of environment variables, without values", _list_of(_variable), private=True
)
INSIDE = Kind("a list of paths inside the repository", _list_of(_inside))
FOLDER = Kind("a folder inside the repository", _inside, str)
PHASES = Kind("a list of tables, [[pipeline.phase]]", _tables)
PATTERNS = Kind("a list of patterns of paths, with / between folders", _list_of(_pattern))
COMMANDS = Kind("a list of commands, each a text or a list of arguments", _list_of(_command))
MODELS = Kind(f"a table of models by role ({', '.join(ROLES)})", _models)
PRICE_TABLE = Kind(
    "a table of models, each with input, output and perhaps cached in USD per 1M tokens", _prices
)
TOKENS = whole_number(0)
USD = Kind("an amount in USD of at least 0", _amount, float)
MINUTES = Kind(f"a number of minutes above 0 and at most {WEEK_S / 60:.0f}", _minutes, float)
COUNT = whole_number(1)


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
