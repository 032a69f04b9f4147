"""Descriptions of what callers import and type: names with parameters, programs with flags.

Nothing here knows where an implementation lies: only doors and program files are named.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import functools
import inspect
import io
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from tests.support.programs import ROOT

LAYERS = ("driver", "tools", "state_store")


def described(module: str, name: str) -> str:
    """What a caller sees of `name`, which may be dotted: kind and parameters, or the value."""
    found: Any = import_module(module)
    for part in name.split("."):
        holder, found = found, getattr(found, part)
    if inspect.isclass(holder) and isinstance(inspect.getattr_static(holder, part), property):
        return "property"
    if inspect.isclass(found) and issubclass(found, BaseException):
        own = inspect.isfunction(found.__init__)
        return f"exception {_parameters(found)}" if own else "exception"
    if inspect.isclass(found):
        return f"class {_parameters(found)}"
    if callable(found):
        return f"function {_parameters(found)}"
    return f"value {_value(found)}"


def _parameters(found: Callable[..., Any]) -> str:
    """The signature without annotations. A default that is no plain value is told as `...`."""
    signature = inspect.signature(found)
    bare = [
        one.replace(
            annotation=inspect.Parameter.empty,
            default=one.default if one.default is one.empty else _Shown(_value(one.default)),
        )
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


class _Shown(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _value(found: Any) -> str:
    """A plain value as it is, `...` for anything else."""
    if isinstance(found, frozenset | set):
        return repr(sorted(found))
    try:
        json.dumps(found)
    except TypeError:
        return "..."
    return repr(found)


def implementations(module: str, names: Iterable[str]) -> dict[str, ModuleType]:
    """For each name the module that defines it, as Python knows it."""
    door = import_module(module)
    return {name: sys.modules[getattr(door, name).__module__] for name in names}


def program_files() -> list[str]:
    """The files directly in `driver/` and `tools/` that a user can run."""
    found = (path for layer in ("driver", "tools") for path in (ROOT / layer).glob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found if _is_program(path))


def _is_program(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return "\ndef main(" in text and '\nif __name__ == "__main__":' in text


def flags_of(program: str, help_text: str) -> list[str]:
    """Every flag and positional of a program, one a line, subcommands after their own names.

    A program without a parser of its own lists its words in its help.
    """
    parser = _parser_of(program)
    if parser:
        return sorted(_lines(parser, ""))
    return sorted(re.findall(r"^  (\S+)", help_text, re.MULTILINE))


def commands_of(program: str) -> dict[tuple[str, ...], list[str]]:
    """Every subcommand, () where there is none, with words for all that it needs."""
    parser = _parser_of(program)
    return dict(_commands(parser, ())) if parser else {(): []}


def _commands(
    parser: argparse.ArgumentParser, before: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    words: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _commands(below, (*before, name))
            return
        if action.required and action.nargs != "*":
            value = str(next(iter(action.choices or ("1",))))
            words += [*action.option_strings[:1], value]
    yield before, words


def _parser_of(program: str) -> argparse.ArgumentParser | None:
    main = import_module(program.removesuffix(".py").replace("/", ".")).main
    with (
        contextlib.redirect_stdout(io.StringIO()),
        mock.patch.object(argparse.ArgumentParser, "parse_args", _refuse_to_parse),
        mock.patch.object(argparse.ArgumentParser, "parse_known_args", _refuse_to_parse),
    ):
        try:
            main(["--help"])
        except _ParserSeenError as seen:
            return seen.parser
    return None


class _ParserSeenError(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def _refuse_to_parse(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
    raise _ParserSeenError(parser)


def _lines(parser: argparse.ArgumentParser, command: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield f"{command}<{'required' if action.required else 'optional'} command>"
            for name, below in action.choices.items():
                yield f"{command}{name} ..."
                yield from _lines(below, f"{command}{name} ")
        else:
            yield command + _line(action)
    for group in parser._mutually_exclusive_groups:
        names = sorted(_name(action) for action in group._group_actions)
        yield f"{command}<only one of> {' '.join(names)}"


def _name(action: argparse.Action) -> str:
    return ", ".join(action.option_strings) or str(action.metavar or action.dest)


def _line(action: argparse.Action) -> str:
    words = [_name(action)]
    if action.nargs != 0 and action.option_strings:
        words.append(str(action.metavar or action.dest.upper()))
    is_silent = action.default is False or action.default == argparse.SUPPRESS
    kind = type(action).__name__.strip("_").removesuffix("Action")
    facts = {
        "action": kind if kind not in ("Store", "StoreTrue", "Help") else None,
        "nargs": action.nargs if action.nargs != 0 else None,
        "type": action.type.__name__ if action.type in (int, float) else None,
        "choices": ",".join(map(str, action.choices)) if action.choices else None,
        "default": None if is_silent else action.default,
        "const": action.const if action.const not in (None, True) else None,
        "required": True if action.required and action.option_strings else None,
    }
    words += [f"{key}={value!r}" for key, value in facts.items() if value is not None]
    return " ".join(words)


@functools.cache
def enums() -> Mapping[tuple[str, ...], str]:
    """The sorted values of every enumeration in the project, and its name for messages."""
    for layer in LAYERS:
        package = import_module(layer)
        for found in pkgutil.walk_packages(package.__path__, f"{layer}."):
            import_module(found.name)
    every = [enum.Enum]
    for one in every:
        every += one.__subclasses__()
    ours = [one for one in every if one.__module__.partition(".")[0] in LAYERS]
    return {tuple(sorted(str(member.value) for member in one)): one.__qualname__ for one in ours}


@functools.cache
def literals() -> str:
    """All source text, in which a word that programs print stands quoted."""
    files = (path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py")))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)
