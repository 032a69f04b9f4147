"""Specifies commits and changes, and builds the input of `git fast-import`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driver.domain.results import Change
from driver.git.command import c_quoted, raw
from driver.tree_files.small_trees import Entry
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


def change_of(entry: str, path: str) -> Change:
    """The change that a raw line of `git diff-tree` tells."""
    base_mode, mode, base_blob, blob, status = entry.lstrip(":").split(" ")
    gone, new = status == "D", status == "A"
    return Change(
        path=path,
        mode=None if gone else mode,
        blob=None if gone else blob,
        base_mode=None if new else base_mode,
        base_blob=None if new else base_blob,
    )


def changes_between(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> tuple[Change, ...]:
    """The changes from the files of one tree to those of another, in the order of git."""
    changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    none = (None, None)
    return tuple(
        Change(path, *after.get(path, none), *before.get(path, none))
        for path in sorted(changed, key=raw)
    )
