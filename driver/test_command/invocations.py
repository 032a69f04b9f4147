"""The programs that a command really starts. Pure. Programs such as `env` that only start others
are omitted. A shell comes with its options and script."""

from __future__ import annotations

import functools
import re

from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import Simple, parse, simple_commands
from state_store.values.lazy_dataclass import dataclass, replace

Command = str | tuple[str, ...]

SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "ash", "sh.exe", "bash.exe")
TAKES_COMMAND = ("env", "exec", "command", "nohup", "nice", "time", "timeout", "stdbuf", "sudo")
_STARTERS = {
    **{"uv": ("run",), "poetry": ("run",), "pdm": ("run",), "hatch": ("run",), "pipenv": ("run",)},
    **{"bundle": ("exec",), "npx": (), "bunx": (), "coverage": ("run",)},
    **{"yarn": (), "pnpm": (), "npm": ("exec",), "nyc": (), "c8": (), "cross-env": ()},
}
_MAY_TAKE_VERB = dict.fromkeys(("yarn", "pnpm"), ("exec", "dlx", "run"))
_VALUES_OF_COVERAGE = (
    *("-r", "--reporter", "-x", "--exclude", "-n", "--include", "-e", "--extension", "--lines"),
    *("--report-dir", "--temp-dir", "--temp-directory", "--require", "-i", "--cwd", "--src"),
    *("--branches", "--functions", "--statements", "--reports-dir", "-o", "--config", "-c"),
)
_SUFFIX = re.compile(r"\.(?:exe|cmd|bat|js|cjs|mjs|phar)$", re.I)


@functools.lru_cache(maxsize=1024)
def programs(command: Command) -> tuple[tuple[str, ...], ...]:
    """The arguments of every program in a command, including a shell's script; () for unreadable
    text. Each command is parsed once."""
    if isinstance(command, str):
        try:
            calls = [one.words for one in simple_commands(parse(command))]
        except UnreadableError:
            return ()
        return tuple(inner for words in calls for inner in programs(words))
    called = shell_call(command)
    if called is not None:
        return programs(called.script) if called.script else ()
    inner = innermost(command)
    return (inner,) if inner else ()


def program_name(words: tuple[str, ...]) -> str:
    """The name of the program in these arguments, without folder and ending."""
    return _SUFFIX.sub("", Simple(words).name)


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """The options of a shell: `-e`, and `pipefail`, by which any failed part makes a pipe fail."""

    errexit: bool = False
    pipefail: bool = False

    def after(self, flags: str, name: str) -> ShellOptions:
        """The options after `-e`, `-o pipefail`, `+o errexit` and similar flags."""
        on = flags.startswith("-")
        options = replace(self, errexit=on) if "e" in flags else self
        if flags[-1] == "o" and name in ("errexit", "pipefail"):
            options = replace(options, **{name: on})
        return options


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A call of a shell; `script` is the text after its `-c`, None without `-c`."""

    options: ShellOptions
    script: str | None


def innermost(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments without leading programs such as `env`, `timeout 60` or `nice`."""
    while words and Simple(words).name in TAKES_COMMAND:
        rest = words[1:]
        while rest and (rest[0].startswith("-") or "=" in rest[0] or rest[0][:1].isdigit()):
            rest = rest[1:]
        words = rest
    return words


def shell_call(words: tuple[str, ...]) -> ShellCall | None:
    """The call of a shell in these arguments; None if they start another program."""
    inner = innermost(words)
    if not inner or Simple(inner).name not in SHELLS:
        return None
    options, with_script, rest = ShellOptions(), False, list(inner[1:])
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        flags = rest.pop(0)
        if flags.startswith("--"):
            continue
        options = options.after(flags, rest[0] if rest else "")
        with_script = with_script or "c" in flags
        if flags[-1] == "o" and rest:
            rest.pop(0)
    return ShellCall(options, rest[0] if with_script and rest else None)


def without_starter(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments without starters that take a verb, such as `uv run`."""
    while words and (verbs := _STARTERS.get(program_name(words))) is not None:
        rest = words[1:]
        if verbs and rest[:1] != verbs:
            break
        name, rest = program_name(words), rest[len(verbs) :]
        if rest[:1] == ("-m",):
            return ("python", *rest)
        while rest and (rest[0].startswith("-") or (name == "cross-env" and "=" in rest[0])):
            takes_value = name in ("nyc", "c8") and rest[0] in _VALUES_OF_COVERAGE
            rest = rest[1 + takes_value :]
        words = rest[rest[:1] != () and rest[0] in _MAY_TAKE_VERB.get(name, ()) :]
    return words
