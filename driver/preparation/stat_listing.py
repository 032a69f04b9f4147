"""Lists the stat data of large folders again and again, with the system's `find`. Where stat data
do not tell every change, the content is read as well.

The interpreter needs ten times as much of its own processor for it, and its threads wait for each
other meanwhile. `snapshot` gives the same for small folders, and where `find` cannot.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from driver.execution.processes import capture
from driver.filesystem.tree import Signature, signature_at, snapshot

_FEW = 500  # with fewer entries, starting a program takes longer
_LIMIT_S = 900.0
_READ_LIMIT_S = 120.0  # a pipe that is put in place of a file would never end
_PART = 1 << 20
_ENVIRONMENT = {"LC_ALL": "C"}
_FORMAT = (
    *("-type", "d", "-printf", r"%p\0d%m\0"),
    *("-o", "-printf", r"%p\0%y%m %s %T@ %C@ %i\0"),
)
_KINDS = {
    **{"f": stat.S_IFREG, "d": stat.S_IFDIR, "l": stat.S_IFLNK, "p": stat.S_IFIFO},
    **{"s": stat.S_IFSOCK, "b": stat.S_IFBLK, "c": stat.S_IFCHR},
}
# Times before 1970 and digits of another kind are read by ourselves.
_FILE = re.compile(r"([flpsbc])([0-7]+) (\d+) (\d+)\.(\d{9})0? (\d+)\.(\d{9})0? (\d+)", re.ASCII)
_FOLDER = re.compile(r"d([0-7]+)", re.ASCII)
_GLOB = re.compile(r"([\\*?\[])")


class StatListing:
    """Lists the paths `names` in the folder `top` and everything in them, or with no `names`
    everything in it, except for the paths `without`. `expected` is about how many these are. With
    `by_content`, a file's signature ends with a digest of its content. Not thread safe."""

    def __init__(
        self,
        top: Path,
        names: tuple[str, ...] = (),
        without: Collection[str] = (),
        expected: int = 0,
        *,
        by_content: bool = False,
    ) -> None:
        self._top, self._names, self._without = top, names, without
        self.by_content = by_content
        self._many = expected > _FEW
        self._printed = b""
        self._records: dict[str, str] = {}
        self._seen: dict[str, Signature] = {}

    def at(self, top: Path) -> StatListing:
        """The listing of the same paths in a folder that this one was moved to."""
        moved = StatListing(top, self._names, self._without, by_content=self.by_content)
        moved._many, moved._printed = self._many, self._printed
        moved._records, moved._seen = self._records, self._seen
        return moved

    @property
    def is_large(self) -> bool:
        """True if one look is cheaper than reading the stat data of each path."""
        return self._many

    def look(self) -> Mapping[str, Signature]:
        """Map each path to its signature (see `snapshot`). Raises OSError if a folder cannot be
        read."""
        if self._many and (printed := self.printed()) is not None:
            return self.look_at(printed)
        seen = self._read()
        self._many = len(seen) > _FEW
        return self._with_content(seen)

    def look_at(self, printed: bytes) -> Mapping[str, Signature]:
        """Give what `look` gives, from the output of `find` that the caller has."""
        if printed != self._printed:
            self._seen = dict(self._parsed(printed))
            self._printed = printed
        return self._with_content(self._seen)

    def _with_content(self, seen: Mapping[str, Signature]) -> Mapping[str, Signature]:
        if not self.by_content:
            return seen
        files = [path for path, one in seen.items() if stat.S_ISREG(one[0])]
        digests = _digests(self._top, files) if len(files) > _FEW else None
        if digests is None:
            digests = [_digest(f"{self._top}/{path}") for path in files]
        return {**seen, **{p: (*seen[p], one) for p, one in zip(files, digests, strict=True)}}

    def _read(self) -> dict[str, Signature]:
        if not self._names:
            return snapshot(self._top, without=self._without)
        seen: dict[str, Signature] = {}
        for name in self._names:
            own = signature_at(f"{self._top}/{name}")
            if own is None:
                continue
            seen[name] = own
            if stat.S_ISDIR(own[0]):
                inside = snapshot(self._top / name, without=())
                seen |= {f"{name}/{path}": one for path, one in inside.items()}
        return seen

    def printed(self) -> bytes | None:
        """The output of `find`, which `records_in` reads; None if it cannot list these paths."""
        program = _system("find")
        names = [name for name in self._names if os.path.lexists(self._top / name)]
        if not program or (self._names and not names):
            return None
        starts = [f"./{name}" for name in names] or [".", "-mindepth", "1"]
        apart = [_GLOB.sub(r"\\\1", f"./{path}") for path in self._without]
        pruned = [word for path in apart for word in ("-path", path, "-prune", "-o")]
        argv = (program, *starts, *pruned, *_FORMAT)
        done = capture(argv, cwd=self._top, env=_ENVIRONMENT, timeout_s=_LIMIT_S)
        # It also fails at a folder that may not be read, or that is removed meanwhile.
        return done.stdout if done.ok and not done.stderr else None

    def _parsed(self, printed: bytes) -> Iterator[tuple[str, Signature]]:
        before, self._records = self._records, records_in(printed)
        for name, record in self._records.items():
            signature = self._seen.get(name) if before.get(name) == record else _read_out(record)
            if signature is None:
                signature = signature_at(f"{self._top}/{name}")
            if signature is not None:  # else it was just removed
                yield name, signature


def records_in(printed: bytes) -> dict[str, str]:
    """Maps each path to what `find` printed of it: kind and mode, and of all but folders also size,
    times and inode."""
    fields = os.fsdecode(printed).split("\0")
    return {path[2:]: one for path, one in zip(fields[:-1:2], fields[1::2], strict=True)}


def folders_in(printed: bytes) -> list[str]:
    """The folders that `find` printed."""
    fields = printed.split(b"\0")
    pairs = zip(fields[:-1:2], fields[1::2], strict=True)
    return [os.fsdecode(path[2:]) for path, record in pairs if record[:1] == b"d"]


def size_of(records: Iterable[str]) -> int:
    """The bytes of what the `records_in` an output tell, except for folders."""
    return sum(int(record.split(" ", 2)[1]) for record in records if " " in record)


def _digests(top: Path, files: Sequence[str]) -> list[int] | None:
    """The digests of many files, by the system's own program; None if it cannot read them all."""
    argv = (_system("xargs"), "-0", _system("b2sum"), "-z", "-l", "128", "--")
    if not all(argv):
        return None
    asked = b"".join(b"./" + os.fsencode(path) + b"\0" for path in files)
    done = capture(argv, cwd=top, env=_ENVIRONMENT, timeout_s=_READ_LIMIT_S, stdin=asked)
    lines = os.fsdecode(done.stdout).split("\0")[:-1]
    if not done.ok or [line[36:] for line in lines] != [*files]:  # after the digest and "  ./"
        return None
    return [int(line[:32], 16) for line in lines]


def _digest(path: str) -> int:
    """A number for the content of a file, or for the error if it cannot be read."""
    try:
        # Something else may stand there by now, and a pipe would never end.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as trouble:
        return -(trouble.errno or 1)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return 0
        made = hashlib.blake2b(digest_size=16)
        # A small file is read by two calls of the system, the second of which finds its end.
        while part := os.read(file, min(found.st_size + 1, _PART)):
            made.update(part)
        return int.from_bytes(made.digest(), "big")
    finally:
        os.close(file)


def _read_out(record: str) -> Signature | None:
    """The signature that `find` printed; None if it has to be read again."""
    if folder := _FOLDER.fullmatch(record):
        return (stat.S_IFDIR | int(folder[1], 8),)
    if (file := _FILE.fullmatch(record)) is None:
        return None
    kind, mode, size, modified, ns, changed, changed_ns, inode = file.groups()
    times = int(modified + ns), int(changed + changed_ns)
    return (_KINDS[kind] | int(mode, 8), int(size), *times, int(inode))


def _system(name: str) -> str:
    """The system's own program; "" without one. No other program of this name is believed."""
    if sys.platform != "linux":
        return ""
    places = (f"/usr/bin/{name}", f"/bin/{name}")
    return next((one for one in places if os.access(one, os.X_OK)), "")
