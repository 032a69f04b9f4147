"""Holds how the running program was called: its command as typed, and the flags for all output.

Set once, before the work begins. Imports nothing, because every program loads it.
"""

from __future__ import annotations

AUTO, ALWAYS, NEVER = "auto", "always", "never"


class Invocation:
    """A call of a program. `command` is "" for a program file, else such as `tidegate halt`. The
    `topic` and the subcommand as `kind` name the documents of the program in their `schema`."""

    __slots__ = ("color", "command", "json", "kind", "quiet", "shows_parser", "topic", "verbose")

    def __init__(self, command: str = "", topic: str = "") -> None:
        self.command, self.topic, self.kind = command, topic, ""
        self.json = self.quiet = self.verbose = self.shows_parser = False
        self.color = AUTO

    @property
    def without_word(self) -> str:
        """The command without its word, such as `tidegate`; "" for a program file."""
        return self.command.rpartition(" ")[0]

    @property
    def program(self) -> str:
        """The name in error messages."""
        return f"tidegate {self.topic}" if self.command else self.topic


_calls = [Invocation()]


def current() -> Invocation:
    """The innermost call of this process."""
    return _calls[-1]


class typed:
    """The context of a call by `command`, such as `tidegate halt`. A class, because contextlib
    costs more than all else here."""

    def __init__(self, command: str, topic: str) -> None:
        self._call = Invocation(command, topic)

    def __enter__(self) -> Invocation:
        _calls.append(self._call)
        return self._call

    def __exit__(self, *_: object) -> None:
        _calls.remove(self._call)


def schema() -> str:
    """The value of `schema` in a document: `tidegate/<program>/<subcommand, if any>/1`."""
    parts = ("tidegate", current().topic, current().kind, "1")
    return "/".join(filter(None, parts))


def error_document(sentence: str, code: int) -> dict[str, object]:
    """The document of a program that cannot answer."""
    return {"schema": "tidegate/error/1", "error": sentence, "exit_code": code}
