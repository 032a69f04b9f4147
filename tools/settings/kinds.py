"""The kinds of values of settings, with their checks and messages. Pure.

`schema` lists the settings.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any

from state_store.documents.strict_json import parse
from state_store.values.lazy_dataclass import dataclass, field
from state_store.values.names import VARIABLE_PATTERN

ROLES = ("worker", "setup", "verify")
WEEK_S = 604_800.0  # timers of some platforms overflow after some weeks
_MOST_USD = 1e9
_SWITCHES = dict.fromkeys(("true", "yes", "on", "1"), True)
_SWITCHES |= dict.fromkeys(("false", "no", "off", "0"), False)

Command = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that a setting takes.

    `accept` converts a raw value or raises ValueError. `says` completes "must be ...". `parse`
    reads text from the environment; it is None if the environment cannot set the value. Messages do
    not repeat a `private` value. `shape` is a JSON Schema that every accepted value fits, for the
    documents; its title is the short name of the kind.
    """

    says: str
    accept: Callable[[Any], Any]
    parse: Callable[[str], Any] | None = None
    private: bool = False
    shape: Mapping[str, Any] = field(default_factory=dict)


def setting(kind: Kind, default: Any = None) -> Any:
    """A field of a section. Without a default the setting is optional."""
    return field(default=default, metadata={"kind": kind})


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _text(raw: Any) -> str:
    _require(isinstance(raw, str) and bool(raw.strip()) and raw.isprintable())
    _require(not raw.startswith("-"))  # else a program could take it for an option
    return str(raw)


def _text_like(pattern: str) -> Callable[[Any], str]:
    def accept(raw: Any) -> str:
        _require(re.match(pattern, _text(raw)) is not None)
        return str(raw)

    return accept


def _json_object(raw: Any) -> str:
    _require(isinstance(raw, str) and isinstance(parse(raw), dict))
    return str(raw)


def _switch(raw: Any) -> bool:
    _require(isinstance(raw, bool))
    return bool(raw)


def _parse_switch(text: str) -> bool:
    _require(text.strip().lower() in _SWITCHES)
    return _SWITCHES[text.strip().lower()]


def _number(low: float, high: float = sys.float_info.max) -> Callable[[Any], float]:
    """Accepts a number from `low` to `high`, but not True, infinity or NaN."""

    def accept(raw: Any) -> float:
        _require(isinstance(raw, int | float) and not isinstance(raw, bool) and low <= raw <= high)
        return float(raw)

    return accept


def inside_one(raw: Any) -> str:
    """Accepts a path inside the repository. Raises ValueError."""
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
    """USD per 1M tokens. `cached` is None if unknown."""

    input: float
    output: float
    cached: float | None = None


def _prices(raw: Any) -> Mapping[str, TokenPrice]:
    _require(isinstance(raw, Mapping))
    prices = {}
    for model, price in raw.items():
        _require(isinstance(price, Mapping) and {"input", "output"} <= set(price))
        _require(set(price) <= {"input", "output", "cached"})
        prices[_text(model)] = TokenPrice(**{k: _number(0)(usd) for k, usd in price.items()})
    return MappingProxyType(prices)


def _list_of(accept: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def accept_all(raw: Any) -> tuple[Any, ...]:
        _require(isinstance(raw, list | tuple))
        return tuple(accept(one) for one in raw)

    return accept_all


def whole_number(low: int, high: int | None = None) -> Kind:
    """Accepts a whole number from `low` to `high`, also 5e6, but not True or "5"."""

    def accept(raw: Any) -> int:
        _require(isinstance(raw, int | float) and not isinstance(raw, bool))
        _require(math.isfinite(raw) and raw == int(raw) and raw >= low)
        _require(high is None or raw <= high)
        return int(raw)

    bound = f"of at least {low}" if high is None else f"from {low} to {high}"
    title = f"number, at least {low}" if high is None else f"number from {low} to {high}"
    most = {} if high is None else {"maximum": high}
    shape = {"type": "integer", "minimum": low, **most, "title": title}
    return Kind(f"a whole number {bound}", accept, int, shape=shape)


def one_of(*names: str) -> Kind:
    """Accepts one of these words."""

    def accept(raw: Any) -> str:
        _require(isinstance(raw, str) and raw in names)
        return str(raw)

    quoted = [f"`{name}`" for name in names]
    title = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
    shape = {"enum": list(names), "title": title}
    return Kind(" or ".join(f'"{name}"' for name in names), accept, str, shape=shape)


def _string(title: str, pattern: str = r"^(?!-)(?=.*\S)[^\x00-\x1f\x7f]+$") -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "title": title}


def _list(title: str, items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more, "title": title}


def _amount(title: str, least: float, most: float) -> dict[str, Any]:
    bound = "minimum" if least == 0 else "exclusiveMinimum"
    return {"type": "number", bound: 0, "maximum": most, "title": title}


_LEAST = math.ulp(0.0)  # the least number above 0
_name = _text_like(rf"{VARIABLE_PATTERN[1:-1]}\Z")
_NAME = _string("name", VARIABLE_PATTERN)
_WORD = {"type": "string"}
_WORDS = _list("list of texts", _WORD)
_COMMAND = {"anyOf": [_string("text", r"\S"), _list("list of texts", _WORD, minItems=1)]}
_INSIDE = _string(
    "path", r"^(?![-/\\]|[A-Za-z]:)(?!(.*[/\\])?\.\.([/\\]|$))(?=.*\S)[^\x00-\x1f\x7f]+$"
)
_PATTERN = _string("pattern", r"^(?![-/])(?!(.*/)?\.\.(/|$))(?=.*\S)[^\\]+$")
_USD = {"type": "number", "minimum": 0}
_PRICE = {
    "type": "object",
    "properties": {"input": _USD, "output": _USD, "cached": _USD},
    "required": ["input", "output"],
    "additionalProperties": False,
}

TEXT = Kind("a line of text that does not start with -", _text, str, shape=_string("text"))
REMOTE = Kind(
    "the name or address of a git remote",
    _text,
    str,
    private=True,
    shape=_string("name or address"),
)
BRANCH = Kind("the name of a branch", _branch, str, shape=_string("name of a branch"))
PATH = Kind(
    "a path",
    lambda raw: Path(_text(str(raw) if isinstance(raw, Path) else raw)),
    str,
    shape=_string("path"),
)
PATHS = Kind(
    "a list of paths",
    _list_of(PATH.accept),
    shape=_list("list of paths", PATH.shape),
)
SWITCH = Kind(
    "true or false", _switch, _parse_switch, shape={"type": "boolean", "title": "true or false"}
)
SECONDS = Kind(
    f"a number of seconds above 0 and at most {WEEK_S:.0f}",
    _number(_LEAST, WEEK_S),
    float,
    shape=_amount("seconds", _LEAST, WEEK_S),
)
WAIT = Kind(
    f"a number of seconds from 0 to {WEEK_S:.0f}",
    _number(0, WEEK_S),
    float,
    shape=_amount("seconds, 0 is none", 0, WEEK_S),
)
VARIABLE = Kind("the name of an environment variable", _name, str, private=True, shape=_NAME)
ADDRESS = Kind(
    "an http or https address",
    _text_like("https?://"),
    str,
    private=True,
    shape=_string("http or https address", "^https?://"),
)
_WEBHOOK = r"https://[^/]|http://(localhost|127(\.\d+){3}|\[::1\])(:\d+)?(/|$)"
WEBHOOK = Kind(
    "an https address, or an http address of this machine",
    _text_like(_WEBHOOK),
    str,
    private=True,
    shape=_string("https address", f"^({_WEBHOOK})"),
)
JSON_OBJECT = Kind(
    "the text of a JSON object", _json_object, str, shape=_string("JSON object", r"^\s*\{")
)
ARGV = Kind(
    "a list of arguments, the program first",
    lambda raw: () if raw in ([], ()) else _argv(raw),
    shape=_list("list of texts", _WORD, prefixItems=[{"type": "string", "minLength": 1}]),
)
ARGUMENTS = Kind("a list of texts", _list_of(_argument), shape=_WORDS)
VARIABLES = Kind(
    "a list of names of environment variables, without values",
    _list_of(_name),
    private=True,
    shape=_list("list of names", _NAME),
)
INSIDE = Kind(
    "a list of paths inside the repository",
    _list_of(inside_one),
    shape=_list("list of paths", _INSIDE),
)
FOLDER = Kind(
    "a folder inside the repository", inside_one, str, shape={**_INSIDE, "title": "folder"}
)
PHASES = Kind(
    "a list of tables, [[pipeline.phase]]",
    _tables,
    shape=_list("list of tables", {"type": "object"}),
)
PATTERNS = Kind(
    "a list of patterns of paths, with / between folders",
    _list_of(_pattern),
    shape=_list("list of patterns", _PATTERN),
)
COMMANDS = Kind(
    "a list of commands, each a text or a list of arguments",
    _list_of(_command),
    shape=_list("list of commands", _COMMAND),
)
MODELS = Kind(
    f"a table of models by role ({', '.join(ROLES)})",
    _models,
    shape={
        "type": "object",
        "properties": {role: _string("text") for role in ROLES},
        "additionalProperties": False,
        "title": "table",
    },
)
PRICE_TABLE = Kind(
    "a table of models, each with input, output and perhaps cached in USD per 1M tokens",
    _prices,
    shape={"type": "object", "additionalProperties": _PRICE, "title": "table"},
)
TOKENS = whole_number(0)
USD = Kind(
    "an amount in USD of at least 0",
    _number(0, _MOST_USD),
    float,
    shape=_amount("USD, at least 0", 0, _MOST_USD),
)
MINUTES = Kind(
    f"a number of minutes above 0 and at most {WEEK_S / 60:.0f}",
    _number(_LEAST, WEEK_S / 60),
    float,
    shape=_amount("minutes", _LEAST, WEEK_S / 60),
)
COUNT = whole_number(1)
