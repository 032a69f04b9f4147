"""Finds test commands whose exit code could hide a red test, and names the reason and the remedy.

Pure. A list of arguments is accepted unless it starts a shell. A shell's script is parsed
(`shell_parser`); an unreadable script is not judged. Only the last of several commands joined by
`;` or line ends decides the exit code, so the earlier commands must test nothing, or follow `set
-e`.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from driver.test_command.invocations import SHELLS, TAKES_COMMAND, ShellOptions, shell_call
from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import (
    RESERVED,
    Branch,
    Chain,
    Group,
    Listing,
    Loop,
    Pipeline,
    Simple,
    parse,
    simple_commands,
)
from state_store.values.lazy_pattern import lazy_pattern

_ALWAYS_GREEN = ("true", ":", "echo", "printf", "sleep")
_SET_UP = (
    *("", "cd", "pushd", "popd", "export", "unset", "set", "source", ".", "umask", "ulimit"),
    *("echo", "printf", "mkdir", "alias", "shopt", "local", "readonly", "declare", "true", ":"),
    *("sleep", "rm", "cp", "mv", "ln", "touch", "chmod"),
    *("pwd", "date", "ls", "uname", "whoami", "id", "hostname", "printenv", "which", "nproc"),
    *("basename", "dirname", "realpath", "readlink", "mktemp", "cat", "clear"),
)
_CONDITIONS = ("[", "test", "command", "which", "type", "hash", "grep", "rg")

_PLAIN = lazy_pattern(r"[A-Za-z0-9_./-]+(?: +[A-Za-z0-9_./:=@%+,-]+)*")
_READ = frozenset((*SHELLS, *TAKES_COMMAND, *RESERVED, "eval", "trap", "set"))
_SUBSTITUTED = lazy_pattern(r"\$\(([^()`]*)\)|`([^`]*)`")

_BACKGROUND = "the shell does not wait for a command with `&`, so it cannot be red: remove the `&`"
_PIPE = (
    "a pipe's exit code is its last command's: run it in `bash -o pipefail -c`, or remove the pipe"
)
_LOST = (
    "the exit code of `{}` is lost, as another command follows it: join them with `&&`, or start"
    " with `set -e`"
)
_EXCUSED = "`|| {}` makes a red test green: remove it"
_REPLACED = "`|| {}` decides the exit code after a red command: remove it, or end it with `exit 1`"
_INVERTED = "`! {}` turns red into green: remove the `!`"
_ERRORS_OFF = "`set +{}` lets failures pass: remove it"
_TRAP = "a trap on EXIT can replace the exit code: remove it"
_IF = "an `if` is green when its condition `{}` is red: run the command itself, without the `if`"
_SWALLOWED = (
    "`{}` is green whatever the exit code of the command in its `$( )` is: run that command itself"
)
_LOOP = "only the last round of a loop decides: start with `set -e`, or add `|| exit 1` to its body"


def command_problems(command: str | Sequence[str], *, pipefail: bool = True) -> tuple[str, ...]:
    """The reasons why the exit code of a test command could hide a red test, one sentence each.
    `pipefail` is True if the shell that runs a text has this option on."""
    if isinstance(command, str):
        found = _script(command, ShellOptions(pipefail=pipefail))
    else:
        found = _arguments(tuple(command))
    return tuple(dict.fromkeys(found))


def _is_one_program(text: str) -> bool:
    """True for plain words that start a program which no rule of this module concerns. Most test
    commands are such; the parser takes a hundred times as long to tell."""
    return bool(_PLAIN.fullmatch(text)) and posixpath.basename(text.split(" ", 1)[0]) not in _READ


def _script(text: str, options: ShellOptions) -> Iterator[str]:
    if _is_one_program(text):
        return
    try:
        listing = parse(text)
    except UnreadableError:
        return
    yield from _listing(listing, options)


def _arguments(words: tuple[str, ...]) -> Iterator[str]:
    """The problems of a shell script in these arguments."""
    called = shell_call(words)
    if called is not None and called.script is not None:
        yield from _script(called.script, called.options)


def _listing(listing: Listing, options: ShellOptions) -> Iterator[str]:
    kept = _keeps_exit_code(listing)
    for number, chain in enumerate(listing.chains):
        last = chain is listing.chains[-1]
        options, switched_off = _after_set(chain, options)
        if switched_off and not last:
            yield _ERRORS_OFF.format(switched_off)
        if not kept or number > kept:
            yield from _in_place(chain, last, len(listing.chains), options)
        for at, pipeline in enumerate(chain.pipelines):
            yield from _pipeline(pipeline, options)
            if at and chain.joints[at - 1] == "||":
                yield from _alternative(chain, at, decides=last and at == len(chain.joints))


def _keeps_exit_code(listing: Listing) -> int:
    """The position of `status=$?` in `test; status=$?; ...; exit $status`; 0 without such a
    frame."""
    last = _only_words(listing.chains[-1]) if listing.chains else ()
    if last[:1] != ("exit",) or not last[-1].startswith("$"):
        return 0
    saved = (f"{last[-1].strip('${}')}=$?",)
    commands = [chain.pipelines[0].commands[0] for chain in listing.chains[:2]]
    assigned = [one.assigned if isinstance(one, Simple) else () for one in commands]
    return assigned.index(saved) if saved in assigned else 0


def _after_set(chain: Chain, options: ShellOptions) -> tuple[ShellOptions, str]:
    """The options after a `set`, and the name of an option that it switches off."""
    words = _only_words(chain)
    if words[:1] != ("set",) or len(words) < 2:
        return options, ""
    after = options
    for flags, name in zip(words[1:], (*words[2:], ""), strict=True):
        if flags[:1] in ("-", "+") and len(flags) > 1:
            after = after.after(flags, name)
    if (options.errexit, options.pipefail) == (after.errexit, after.pipefail):
        off = any(word.startswith("+e") for word in words[1:])
        return after, "e" if off else ""
    if options.errexit and not after.errexit:
        return after, "e"
    return after, "o pipefail" if options.pipefail and not after.pipefail else ""


def _only_words(chain: Chain) -> tuple[str, ...]:
    """The words of a chain that is a single simple command; else ()."""
    command = chain.pipelines[0].commands[0]
    alone = len(chain.pipelines) == 1 and len(chain.pipelines[0].commands) == 1
    return command.words if alone and isinstance(command, Simple) else ()


def _in_place(chain: Chain, last: bool, count: int, options: ShellOptions) -> Iterator[str]:
    """The problems of a chain at its position in the list."""
    if chain.background and last:
        yield _BACKGROUND
    elif last and count > 1 and not options.errexit and _is_green(chain):
        yield _LOST.format("the command before " + _shown(chain.pipelines[-1]))
    elif not last and not chain.background and not options.errexit and not _sets_up(chain):
        yield _LOST.format(_shown(chain.pipelines[0]))


def _is_green(chain: Chain) -> bool:
    """True if a chain is green whatever the earlier commands did."""
    words = _only_words(chain)
    return _always_green(chain.pipelines[-1]) or words == ("wait",)


def _sets_up(chain: Chain) -> bool:
    """True if a failure of this chain does not matter. A condition tests nothing if another command
    follows it in the chain."""
    asks = len(chain.pipelines) > 1 and _is_condition(chain.pipelines[0])
    return all(
        isinstance(command, Simple) and _is_harmless(command)
        for pipeline in chain.pipelines[asks:]
        for command in pipeline.commands
    )


def _is_harmless(command: Simple) -> bool:
    """True for a command that only prepares or prints."""
    version = len(command.words) == 2 and command.words[1] == "--version"
    return command.name in (*_SET_UP, "trap") or version


def _swallows(word: str) -> bool:
    """True if a word may hide a test in `$( )`, whose exit code is lost."""
    inner = [one or other for one, other in _SUBSTITUTED.findall(word)]
    if re.search(r"\$\(|`", _SUBSTITUTED.sub("", word)):
        return True
    try:
        called = [one for text in inner for one in simple_commands(parse(text))]
    except UnreadableError:
        return True
    return not all(_is_harmless(one) or one.name == "git" for one in called)


def _alternative(chain: Chain, number: int, *, decides: bool) -> Iterator[str]:
    """The problems of the pipeline after an `||`; it `decides` if it is the last of all."""
    pipeline = chain.pipelines[number]
    asked = number == 1 and _is_condition(chain.pipelines[0])
    if asked and not (decides and _always_green(pipeline)):
        return
    if _always_green(pipeline):
        yield _EXCUSED.format(_shown(pipeline))
    elif not _stays_red(pipeline) and number == len(chain.joints):
        yield _REPLACED.format(_shown(pipeline))


def _pipeline(pipeline: Pipeline, options: ShellOptions) -> Iterator[str]:
    """The problems of a pipeline and its commands."""
    if len(pipeline.commands) > 1 and not options.pipefail:
        yield _PIPE
    if pipeline.inverted and not _is_condition(pipeline):
        yield _INVERTED.format(_shown(replace(pipeline, inverted=False)))
    for command in pipeline.commands:
        if isinstance(command, Simple):
            yield from _simple(command, options)
        elif isinstance(command, Branch):
            yield from _branch(command, options)
        else:
            yield from _listing(command.body, options)
            chains = command.body.chains
            stops = chains and chains[-1].joints[-1:] == ("||",)
            stops = stops and _stays_red(chains[-1].pipelines[-1])
            if isinstance(command, Loop) and not options.errexit and not stops:
                yield _LOOP


def _simple(command: Simple, options: ShellOptions) -> Iterator[str]:
    if command.name == "eval":
        words = itertools.dropwhile(lambda word: word == "eval", command.words)
        yield from _script(" ".join(words), options)
    elif command.name == "trap" and {"EXIT", "0"} & set(command.words[2:]):
        yield _TRAP
    elif command.name in _ALWAYS_GREEN and any(map(_swallows, command.words)):
        yield _SWALLOWED.format(command.name)
    else:
        yield from _arguments(command.words)


def _branch(branch: Branch, options: ShellOptions) -> Iterator[str]:
    """The problems of an `if`: a test in its condition, and the problems of its bodies."""
    for chain in (chain for condition in branch.conditions for chain in condition.chains):
        if not all(_is_condition(pipeline) for pipeline in chain.pipelines):
            yield _IF.format(_shown(chain.pipelines[0]))
    for body in branch.bodies:
        yield from _listing(body, options)


def _always_green(pipeline: Pipeline) -> bool:
    command = pipeline.commands[-1]
    if isinstance(command, Group):
        return bool(command.body.chains) and _is_green(command.body.chains[-1])
    if not isinstance(command, Simple) or pipeline.inverted:
        return False
    if command.name in ("exit", "return"):
        return command.words[1:] == ("0",)
    return command.name in _ALWAYS_GREEN


def _stays_red(pipeline: Pipeline) -> bool:
    command = pipeline.commands[-1]
    if isinstance(command, Group):
        return bool(command.body.chains) and _stays_red(command.body.chains[-1].pipelines[-1])
    if not isinstance(command, Simple) or pipeline.inverted:
        return False
    return command.name in ("exit", "return", "false") and command.words[1:] != ("0",)


def _is_condition(pipeline: Pipeline) -> bool:
    """True for a condition that tests nothing."""
    command = pipeline.commands[-1]
    return isinstance(command, Simple) and command.name in _CONDITIONS


def _shown(pipeline: Pipeline) -> str:
    """The start of a pipeline, for messages."""
    command = pipeline.commands[0]
    if not isinstance(command, Simple):
        return "..."
    return " ".join((*command.assigned, *command.words))[:60]
