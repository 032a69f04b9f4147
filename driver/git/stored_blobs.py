"""Lists contents that a push could publish: staged, in a range of commits, in all history.

The contents come from the index and the object store, never from the working copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from driver.git.command import BULK_TIMEOUT_S, GitError, records, run_git, text, user_environment
from driver.git.object_check import read_objects
from state_store.values.lazy_dataclass import dataclass

_BATCH_BYTES = 32 * 2**20  # in memory at once; a single file may be larger
_LINK = "160000"
_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--no-relative", "--diff-filter=d")  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A file's content: its present or first `path`, and its object id `blob`."""

    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class StoredBlobs:
    """Reads contents from a repository. Every method raises GitError and CannotRunError."""

    folder: Path
    environ: Mapping[str, str]

    def staged(self) -> list[StoredBlob]:
        """The contents in the index that are not in the last commit."""
        return _held(self._git("diff", "--cached", *_RAW))

    def of_range(self, commits: str) -> list[StoredBlob]:
        """Every content that a commit of `A..B` added, even if a later commit removed it."""
        return self._objects(commits)

    def at_tip(self, commits: str) -> list[StoredBlob]:
        """The contents that differ between the ends of `A..B`."""
        return _held(self._git("diff", *_RAW, "--end-of-options", commits, "--"))

    def of_history(self) -> list[StoredBlob]:
        """Every content in the history of any ref."""
        return self._objects("--all")

    def commit_with(self, blob: str) -> str:
        """A commit, abbreviated, that added or removed a content, or ""."""
        asked = ("log", "--all", "-1", "--format=%h", f"--find-object={blob}")
        return text(self._git(*asked)).strip()

    def content(self, ref: str) -> bytes:
        """The bytes of an object. `ref` is an object id, `:path` (in the index) or
        `commit:path`."""
        return self._git("cat-file", "blob", ref)

    def ignored(self) -> tuple[str, ...]:
        """The ignored files and folders (with "/" at their end) below `folder`, relative to it; ()
        if `folder` itself is ignored."""
        asked = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
        found = tuple(records(self._git(*asked)))
        return () if "./" in found else found

    def contents(self, held: Iterable[StoredBlob]) -> Iterator[tuple[StoredBlob, bytes]]:
        """Yields each content with its bytes, read in batches."""
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
        """A fact about each object, as git prints it, or "missing"."""
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
    """The new contents in a raw diff, without nested repositories."""
    fields = records(raw)
    pairs = zip(fields[::2], fields[1::2], strict=True)
    split = ((entry.lstrip(":").split(" "), path) for entry, path in pairs)
    return [StoredBlob(path, entry[3]) for entry, path in split if entry[1] != _LINK]
