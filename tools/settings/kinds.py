"""What values a setting can take: kinds, each with its check and the words that tell of it. Pure.

Which settings there are is `settings_schema`'s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


def inside_one(raw: Any) -> str:
    """A path inside the repository; ValueError for any other."""
    parts = PurePosixPath(_text(raw).replace("\\", "/"))
    outside = parts.is_absolute() or PureWindowsPath(raw).drive or ".." in parts.parts
    _require(not outside and parts.name != "")
    return parts.as_posix()


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
INSIDE = Kind("a list of paths inside the repository", _list_of(inside_one))
FOLDER = Kind("a folder inside the repository", inside_one, str)
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
