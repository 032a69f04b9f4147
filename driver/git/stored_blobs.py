"""File contents that a push could publish: those staged, of a range of commits, of all history.

They are read from the index and the object store, never from the working copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.git.command import BULK_TIMEOUT_S, GitError, records, run_git, text, user_environment
from driver.git.object_check import read_objects

_BATCH_BYTES = 32 * 2**20  # as much as is held in memory at once, but for larger single files
_LINK = "160000"
_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--no-relative", "--diff-filter=d")  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A file's content: `path` is where it is or first was, `blob` its object id."""

    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class StoredBlobs:
    """A repository to read from; every method raises GitError, CannotRunError without git."""

    folder: Path
    environ: Mapping[str, str]

    def staged(self) -> list[StoredBlob]:
        """The contents that the index has and the last commit has not."""
        return _held(self._git("diff", "--cached", *_RAW))

    def of_range(self, commits: str) -> list[StoredBlob]:
        """Every content that the commits of `A..B` brought, also if a later one took it away."""
        return self._objects(commits)

    def at_tip(self, commits: str) -> list[StoredBlob]:
        """The contents at the end of `A..B` that differ from those at its start."""
        return _held(self._git("diff", *_RAW, "--end-of-options", commits, "--"))

    def of_history(self) -> list[StoredBlob]:
        """Every content that any ref leads to."""
        return self._objects("--all")

    def commit_with(self, blob: str) -> str:
        """A commit, abbreviated, that brought or took away a content; "" when none is found."""
        asked = ("log", "--all", "-1", "--format=%h", f"--find-object={blob}")
        return text(self._git(*asked)).strip()

    def content(self, ref: str) -> bytes:
        """The bytes of one object, named as git takes it: an id, `:path` in the index,
        `commit:path`."""
        return self._git("cat-file", "blob", ref)

    def contents(self, held: Iterable[StoredBlob]) -> Iterator[tuple[StoredBlob, bytes]]:
        """Each with its bytes, read many at a time."""
        wanted = list(held)
        sizes = self._checked({one.blob for one in wanted}, "objectsize")
        if missing := [pair for pair in sizes.items() if not pair[1].isdigit()]:
            blob, problem = missing[0]
            raise GitError(("git", "cat-file"), 128, f"fatal: {blob} is {problem}".encode())
        batch, total = list[StoredBlob](), 0
        for one in wanted:
            size = int(sizes[one.blob])
            if batch and total + size > _BATCH_BYTES:
                yield from self._batch(batch)
                batch, total = [], 0
            batch.append(one)
            total += size
        yield from self._batch(batch)

    def _objects(self, commits: str) -> list[StoredBlob]:
        if commits.startswith("-") and commits != "--all":
            raise GitError(("git", "rev-list", commits), None, b"fatal: a range begins with no -")
        named = text(self._git("rev-list", "--objects", commits, "--"))
        first: dict[str, str] = {}
        for line in named.splitlines():
            blob, _, path = line.partition(" ")
            first.setdefault(blob, path)
        kinds = self._checked(first, "objecttype")
        return [StoredBlob(path, blob) for blob, path in first.items() if kinds.get(blob) == "blob"]

    def _checked(self, ids: Iterable[str], fact: str) -> dict[str, str]:
        """A fact about each object, as git prints it; "missing" for one that is not there."""
        fed = "".join(f"{blob}\n" for blob in ids).encode()
        asked = ("cat-file", f"--batch-check=%(objectname) %({fact})")
        lines = text(self._git(*asked, stdin=fed)).splitlines() if fed else []
        return dict(line.split(" ", 1) for line in lines)

    def _batch(self, held: list[StoredBlob]) -> Iterator[tuple[StoredBlob, bytes]]:
        fed = "".join(f"{one.blob}\n" for one in held).encode()
        printed = self._git("cat-file", "--batch", stdin=fed) if fed else b""
        found = read_objects(printed)
        yield from ((one, git_object.body) for one, git_object in zip(held, found, strict=True))

    def _git(self, *args: str, stdin: bytes = b"") -> bytes:
        env = user_environment(self.environ)
        done = run_git(args, cwd=self.folder, env=env, stdin=stdin, timeout_s=BULK_TIMEOUT_S)
        return done.stdout


def _held(raw: bytes) -> list[StoredBlob]:
    """The new side of a raw diff, without nested repositories, which have no content."""
    fields = records(raw)
    pairs = zip(fields[::2], fields[1::2], strict=True)
    split = ((entry.lstrip(":").split(" "), path) for entry, path in pairs)
    return [StoredBlob(path, entry[3]) for entry, path in split if entry[1] != _LINK]
