"""Which program a command really starts: without those that only start others, and for a shell
with the options and the script that it is given. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import Simple, parse, simple_commands

_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "ash", "sh.exe", "bash.exe")
_TAKES_COMMAND = ("env", "exec", "command", "nohup", "nice", "time", "timeout", "stdbuf", "sudo")


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """What the shell was told: `-e`, and whether pipes are as red as their reddest part."""

    errexit: bool = False
    pipefail: bool = False

    def told(self, flags: str, name: str) -> ShellOptions:
        """The options after `-e`, `-o pipefail`, `+o errexit` and the like."""
        on = flags.startswith("-")
        options = replace(self, errexit=on) if "e" in flags else self
        if flags[-1] == "o" and name in ("errexit", "pipefail"):
            options = replace(options, **{name: on})
        return options


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A call of a shell; `script` is the text behind its `-c`, None where there is none."""

    options: ShellOptions
    script: str | None


def innermost(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments without programs that only start others: `env`, `timeout 60`, `nice`..."""
    while words and Simple(words).name in _TAKES_COMMAND:
        rest = words[1:]
        while rest and (rest[0].startswith("-") or "=" in rest[0] or rest[0][:1].isdigit()):
            rest = rest[1:]
        words = rest
    return words


def shell_call(words: tuple[str, ...]) -> ShellCall | None:
    """The call of a shell that these arguments are; None where they start something else."""
    inner = innermost(words)
    if not inner or Simple(inner).name not in _SHELLS:
        return None
    options, with_script, rest = ShellOptions(), False, list(inner[1:])
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        flags = rest.pop(0)
        if flags.startswith("--"):
            continue
        options = options.told(flags, rest[0] if rest else "")
        with_script = with_script or "c" in flags
        if flags[-1] == "o" and rest:
            rest.pop(0)
    return ShellCall(options, rest[0] if with_script and rest else None)


_BY_NAME = {
    "pytest": "pytest",
    "py.test": "pytest",
    "jest": "jest",
    "vitest": "vitest",
    "mocha": "mocha",
    "ctest": "ctest",
    "rspec": "rspec",
    "phpunit": "phpunit",
    "mvn": "maven",
    "mvnw": "maven",
    "gradle": "gradle",
    "gradlew": "gradle",
}
_BY_VERB = {"go": "go", "cargo": "cargo", "dotnet": "dotnet"}
_BY_MODULE = {"pytest": "pytest", "unittest": "unittest"}
_PYTHON = re.compile(r"^(?:python|py|pypy)[\d.]*$")
_STARTERS = {
    **{"uv": ("run",), "poetry": ("run",), "pdm": ("run",), "hatch": ("run",), "pipenv": ("run",)},
    **{"bundle": ("exec",), "npx": (), "bunx": (), "coverage": ("run",)},
    **{"yarn": (), "pnpm": (), "npm": ("exec",)},
}
_SUFFIX = re.compile(r"\.(?:exe|cmd|bat|js|cjs|mjs|phar)$", re.I)


def runners_named(command: str | Sequence[str]) -> tuple[str, ...]:
    """The runners' names; one that is called twice stands there twice."""
    return tuple(name for words in programs(command) if (name := runner_of(words)))


def programs(command: str | Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The arguments of every program in a command, those in a shell's script included."""
    if not isinstance(command, str):
        return _unfolded(tuple(command))
    try:
        listing = parse(command)
    except UnreadableError:
        return ()
    return tuple(inner for one in simple_commands(listing) for inner in _unfolded(one.words))


def _unfolded(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    called = shell_call(words)
    if called is not None:
        return programs(called.script) if called.script else ()
    inner = innermost(words)
    return (inner,) if inner else ()


def runner_of(words: tuple[str, ...]) -> str:
    """The runner that these arguments start; "" for none."""
    words = without_starter(words)
    name = _SUFFIX.sub("", Simple(words).name)
    rest = words[1:]
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _PYTHON.match(name):
        return _BY_MODULE.get(_module(rest), "")
    if name == "node":
        return "node" if "--test" in rest else _node_script(rest)
    verbs = [word for word in rest if word[:1] not in "-+"]
    return _BY_VERB[name] if name in _BY_VERB and verbs[:1] == ["test"] else ""


def without_starter(words: tuple[str, ...]) -> tuple[str, ...]:
    """What is called by way of programs that start others, such as `uv run`."""
    while words and (verbs := _STARTERS.get(_SUFFIX.sub("", Simple(words).name))) is not None:
        rest = words[1:]
        if verbs and rest[:1] != verbs:
            break
        rest = rest[len(verbs) :]
        if rest[:1] == ("-m",):
            return ("python", *rest)
        while rest[:1] and rest[0].startswith("-"):
            rest = rest[1:]
        words = rest
    return words


def _module(rest: tuple[str, ...]) -> str:
    """The module behind python's `-m`; for `-m coverage run -m x` it is x."""
    if "-m" not in rest or rest.index("-m") + 1 >= len(rest):
        return ""
    at = rest.index("-m")
    if (
        any(not word.startswith("-") for word in rest[:at])
        and "-W" not in rest
        and "-X" not in rest
    ):
        return ""
    name = rest[at + 1]
    return _module(rest[at + 3 :]) if rest[at + 1 : at + 3] == ("coverage", "run") else name


def _node_script(rest: tuple[str, ...]) -> str:
    script = next((word for word in rest if not word.startswith("-")), "")
    return _BY_NAME.get(_SUFFIX.sub("", Simple((script,)).name), "") if script else ""
