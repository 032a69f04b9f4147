"""Specifies commits, and builds the input of `git fast-import`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.domain.results import Change
from driver.git.command import c_quoted, raw
from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CommitSpec:
    """A commit to make: its parent's tree with `changes`. `date` is "seconds +0000"."""

    message: str
    changes: tuple[Change, ...]
    author_name: str
    author_email: str
    date: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The ids of an existing commit and its tree."""

    commit: str
    tree: str


def import_stream(ref: str, parent: str, specs: Sequence[CommitSpec]) -> bytes:
    """The input for a chain of commits on `parent`. Git prints id and tree line of each commit."""
    lines = [b"feature done\n"]
    for number, spec in enumerate(specs):
        person = f"{_name(spec.author_name)} <{_name(spec.author_email)}> {spec.date}"
        message = raw(spec.message)
        lines += [
            raw(f"commit {ref}\nmark :1\nauthor {person}\ncommitter {person}\n"),
            b"data %d\n%s\n" % (len(message), message),
            raw(f"from {parent}\n") if number == 0 and parent else b"",
        ]
        # Deletions first, because a folder may replace a file of the same name, and the reverse.
        for change in sorted(spec.changes, key=lambda change: not change.deleted):
            verb = "D" if change.deleted else f"M {change.mode} {change.blob}"
            lines.append(raw(verb) + b" " + c_quoted(change.path) + b"\n")
        lines.append(b'\nget-mark :1\nls :1 ""\n')
    return b"".join((*lines, b"done\n"))


def _name(text: str) -> str:
    """A name or address without line breaks and angle brackets."""
    return "".join(char for char in text if char not in "<>\n\r\0").strip()
