"""Which program a command really starts: without those that only start others, and for a shell
with the options and the script that it is given. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from driver.shell_syntax import Simple

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
