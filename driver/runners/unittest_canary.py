"""The planted test of unittest: at the end of a module that the command loads, else beside it.

Pure. Found by discovery, or by the name of its module or of its class.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from driver.runners.insertion import (
    Call,
    Canary,
    Command,
    Field,
    NotApplicable,
    Plan,
    camel,
    is_folder,
    positional,
)
from driver.runners.python_source import canary_text, find_host, method_name, with_canary

_START, _PATTERN = ("-s", "--start-directory"), ("-p", "--pattern")
_TAKES_VALUE = (*_START, *_PATTERN, "-t", "--top-level-directory", "-k")


@dataclass(frozen=True, slots=True)
class Discovery:
    """Where tests are looked for, a folder or a package with dots, and in files of which names."""

    start: str
    pattern: str


def plan_unittest(field: Field) -> Plan:
    """See the module."""
    options = _options(field.call)
    if chosen := field.selecting(options, ("-k",), _planned):
        return chosen
    if "-k" in options:
        return NotApplicable("the command selects tests by name")
    return _planned(field)


def discovery_of(options: Sequence[str]) -> Discovery | None:
    """What discovery is asked for by the words behind `unittest`; None where they name modules."""
    named = _named_in(options)
    if named and "discover" not in options:
        return None
    start, pattern = (*named, "", "")[:2]
    start, pattern = _value(options, *_START) or start, _value(options, *_PATTERN) or pattern
    return Discovery(start or ".", pattern or "test*.py")


def _named_in(options: Sequence[str]) -> list[str]:
    return [word for word in positional(options, _TAKES_VALUE) if word != "discover"]


def _planned(field: Field) -> Plan:
    options = _options(field.call)
    named = _named_in(options)
    if discovery := discovery_of(options):
        return _discovered(field, discovery, options, named)
    modules = {word: path for word in named if (path := _module(word, field.call, field.files))}
    if not modules:
        return NotApplicable("no module that the command names is in the tree")
    return _named(field, modules)


def _canary(field: Field, path: str, command: Command, alone: Command | None, host: bool) -> Canary:
    text = canary_text(field.call, field.files, field.changed, path, field.nonce, plain=False)
    text = with_canary(field.texts[path], text) if host else text
    names = (method_name(field.nonce),)
    return Canary("unittest", path, text, names, command, alone, amends=host)


def _host(field: Field, tests: Collection[str]) -> str | None:
    ordered = sorted(tests, key=lambda file: (file in field.changed, file.count("/"), file))
    return find_host(ordered, field.texts, cases_only=True)


def _options(call: Call) -> tuple[str, ...]:
    return call.words[call.words.index("unittest") + 1 :]


def _named(field: Field, modules: Mapping[str, str]) -> Plan:
    """In the module of one of these words, or beside it: a word may name more than a module."""
    whole = {path for word, path in modules.items() if _is_whole(word, path)}
    if host := _host(field, whole):
        return _canary(field, host, field.call.command, field.call.command, host=True)
    host = _host(field, {path for path in modules.values() if not path.endswith("__init__.py")})
    path = host or posixpath.join(
        posixpath.dirname(next(iter(modules.values()))), f"test_{field.nonce}.py"
    )
    dotted = field.call.below(path).removesuffix(".py").replace("/", ".")
    command = field.call.with_more(f"{dotted}.{camel(field.nonce)}" if host else dotted)
    if command is None:
        return NotApplicable("the command names single modules, and none can be added to it")
    return _canary(field, path, command, command if host else None, host=host is not None)


def _discovered(
    field: Field, discovery: Discovery, options: tuple[str, ...], named: list[str]
) -> Plan:
    call, files = field.call, field.files
    start, pattern = discovery.start, discovery.pattern
    folder = call.in_tree(start)
    if folder and not is_folder(folder, files):
        folder = call.in_tree(start.replace(".", "/"))
    name = pattern.replace("*", f"_{field.nonce}", 1).replace("*", "").lstrip("_")
    if not re.fullmatch(r"[A-Za-z]\w*\.py", name) or (folder and not is_folder(folder, files)):
        return NotApplicable("it is not clear which files the command discovers")
    host = _host(field, [file for file in files if _is_loaded(file, folder, pattern, files)])
    path = host or posixpath.join(folder, name)
    name = posixpath.basename(path)
    alone = ("-p", name) if "discover" in options else ("discover", "-p", name)
    plain = "discover" in options or not options
    more = call.with_more(*alone) if plain and len(named) < 2 else None
    return _canary(field, path, call.command, more, host=host is not None)


def _is_loaded(file: str, folder: str, pattern: str, files: Collection[str]) -> bool:
    """Whether discovery from `folder` comes to a file: below it, by packages only."""
    above, name = posixpath.split(file)
    if not fnmatch.fnmatchcase(name, pattern):
        return False
    while above != folder:
        if not above or f"{above}/__init__.py" not in files:
            return False
        above = posixpath.dirname(above)
    return True


def _value(options: Sequence[str], short: str, long: str) -> str:
    """What an option is given, the last time; as argparse takes it, which unittest reads with."""
    found = ""
    for word, following in pairwise((*options, "")):
        name, given, value = word.partition("=")
        if name == short or (len(name) > len("--") and long.startswith(name)):
            found = value if given else following
        elif word.startswith(short):
            found = word.removeprefix(short)
    return found


def _module(word: str, call: Call, files: Collection[str]) -> str:
    """The file of the module that `tests.test_a.Case.test_x` or `tests/test_a.py` names."""
    if word.endswith(".py"):
        path = call.in_tree(word)
        return path if path in files else ""
    parts = word.split(".")
    for end in range(len(parts), 0, -1):
        path = call.in_tree("/".join(parts[:end]))
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in files:
                return file
    return ""


def _is_whole(word: str, path: str) -> bool:
    """Whether a word names the whole module, and not one class of it."""
    named = word.removesuffix(".py").replace("\\", "/").replace(".", "/").lstrip("/")
    return f"/{path}".endswith(f"/{named}.py")
