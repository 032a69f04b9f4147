"""What git holds that somebody could publish: the contents that are staged, of a range, of all.

Read from the index and the object store, never from the working copy. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.git.command import BULK_TIMEOUT_S, GitError, records, run_git, text, user_environment

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
        """What the index has that the last commit has not."""
        return _held(self._git("diff", "--cached", *_RAW))

    def of_range(self, commits: str) -> list[StoredBlob]:
        """Every content that the commits of `A..B` brought, also if a later one took it away."""
        return self._objects(commits)

    def at_tip(self, commits: str) -> list[StoredBlob]:
        """What differs between the two ends of `A..B`, as it is at the end."""
        return _held(self._git("diff", *_RAW, "--end-of-options", commits, "--"))

    def of_history(self) -> list[StoredBlob]:
        """Every content that any ref leads to."""
        return self._objects("--all")

    def commit_with(self, blob: str) -> str:
        """A commit, abbreviated, that brought or took away a content; "" when none is found."""
        asked = ("log", "--all", "-1", "--format=%h", f"--find-object={blob}")
        return text(self._git(*asked)).strip()

    def content(self, ref: str) -> bytes:
        """Of one object, named as git takes it: an id, `:path` in the index, `commit:path`."""
        return self._git("cat-file", "blob", ref)

    def contents(self, held: Iterable[StoredBlob]) -> Iterator[tuple[StoredBlob, bytes]]:
        """Each with its bytes, read many at a time."""
        wanted = list(held)
        sizes = self._sizes(wanted)
        batch: list[StoredBlob] = []
        size = 0
        for one in wanted:
            if batch and size + sizes[one.blob] > _BATCH_BYTES:
                yield from self._batch(batch)
                batch, size = [], 0
            batch.append(one)
            size += sizes[one.blob]
        yield from self._batch(batch)

    def _objects(self, commits: str) -> list[StoredBlob]:
        if commits.startswith("-") and commits != "--all":
            raise GitError(("git", "rev-list", commits), None, b"fatal: a range begins with no -")
        named = text(self._git("rev-list", "--objects", commits, "--"))
        first: dict[str, str] = {}
        for line in named.splitlines():
            blob, _, path = line.partition(" ")
            first.setdefault(blob, path)
        kinds = self._kinds(first)
        return [StoredBlob(path, blob) for blob, path in first.items() if kinds.get(blob) == "blob"]

    def _kinds(self, ids: Iterable[str]) -> dict[str, str]:
        told = self._checked(ids, "%(objectname) %(objecttype)")
        return dict(line.split(" ", 1) for line in told)

    def _sizes(self, held: Iterable[StoredBlob]) -> dict[str, int]:
        told = self._checked({one.blob for one in held}, "%(objectname) %(objectsize)")
        pairs = (line.split(" ", 1) for line in told)
        sizes = {}
        for blob, size in pairs:
            if not size.isdigit():
                raise GitError(("git", "cat-file"), 128, f"fatal: {blob} is {size}".encode())
            sizes[blob] = int(size)
        return sizes

    def _checked(self, ids: Iterable[str], what: str) -> list[str]:
        fed = "".join(f"{blob}\n" for blob in ids).encode()
        if not fed:
            return []
        return text(self._git("cat-file", f"--batch-check={what}", stdin=fed)).splitlines()

    def _batch(self, held: list[StoredBlob]) -> Iterator[tuple[StoredBlob, bytes]]:
        if not held:
            return
        fed = "".join(f"{one.blob}\n" for one in held).encode()
        out = self._git("cat-file", "--batch", stdin=fed)
        at = 0
        for one in held:
            end = out.index(b"\n", at)
            size = int(out[at:end].rsplit(b" ", 1)[1])
            yield one, out[end + 1 : end + 1 + size]
            at = end + size + 2

    def _git(self, *args: str, stdin: bytes = b"") -> bytes:
        env = user_environment(self.environ)
        done = run_git(args, cwd=self.folder, env=env, stdin=stdin, timeout_s=BULK_TIMEOUT_S)
        return done.stdout


def _held(raw: bytes) -> list[StoredBlob]:
    """Of a raw diff: where a file is now, but for nested repositories, which have no content."""
    fields = records(raw)
    pairs = zip(fields[::2], fields[1::2], strict=True)
    split = ((told.lstrip(":").split(" "), path) for told, path in pairs)
    return [StoredBlob(path, told[3]) for told, path in split if told[1] != _LINK]
