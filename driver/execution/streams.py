"""The three streams of a run, as files, and the bounded text kept of each.

Files do not block the child if nothing reads them, and a grandchild that keeps a file open cannot
block this process. Starts and ends no process.
"""

from __future__ import annotations

import codecs
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from driver.execution.command import Command
from driver.filesystem.descriptors import read_at, write_all
from driver.filesystem.kept_output import ENDINGS
from driver.filesystem.redacted_files import redact_file
from state_store.values.lazy_dataclass import dataclass

_CONTINUATIONS = bytes(range(0x80, 0xC0))  # the bytes after the first of a UTF-8 character


@dataclass(frozen=True, slots=True)
class Streams:
    """The open files. The paths are None if only the text in memory is kept."""

    stdin: FileIO
    stdout: FileIO
    stderr: FileIO
    stdout_file: Path | None
    stderr_file: Path | None

    def fds(self) -> tuple[int, int, int]:
        """The file descriptors of stdin, stdout and stderr."""
        return self.stdin.fileno(), self.stdout.fileno(), self.stderr.fileno()

    def last_written(self) -> float:
        """The time of the last output, in seconds of the wall clock."""
        return max(os.fstat(file.fileno()).st_mtime for file in (self.stdout, self.stderr))

    def size(self) -> int:
        """The bytes printed so far."""
        return sum(os.fstat(file.fileno()).st_size for file in (self.stdout, self.stderr))

    def redact(self) -> None:
        """Take known secrets out of both outputs, before anything is cut or kept."""
        for file in (self.stdout, self.stderr):
            redact_file(file.fileno())

    def writers(self) -> list[int]:
        """The processes that have these files open as output, if /proc shows them."""
        ours = [os.fstat(file.fileno()) for file in (self.stdout, self.stderr)]
        pids = [path.name for path in Path("/proc").glob("[0-9]*")]
        found = set[int]()
        for pid, number in itertools.product(pids, (1, 2)):
            with suppress(OSError):  # the process has ended, or belongs to another user
                printed = Path(f"/proc/{pid}/fd/{number}").stat()
                if any(os.path.samestat(printed, file) for file in ours):
                    found.add(int(pid))
        return sorted(found)


@contextmanager
def open_streams(command: Command) -> Iterator[Streams]:
    """Create the streams for one run of `command`. Raises OSError."""
    prefix = command.output
    out, err = (None if prefix is None else Path(f"{prefix}{end}") for end in ENDINGS)
    with _input(command.stdin) as stdin, _output(out) as stdout, _output(err) as stderr:
        yield Streams(stdin, stdout, stderr, out, err)


def kept_text(stream: FileIO, keep_bytes: int, file: Path | None) -> str:
    """The whole text if it has at most `keep_bytes` bytes, else its head and its tail.

    Memory is bounded by `keep_bytes` whatever the size of the file.
    """
    size = os.fstat(stream.fileno()).st_size
    if size <= keep_bytes:
        return _text(read_at(stream.fileno(), 0, size))
    head = read_at(stream.fileno(), 0, keep_bytes - keep_bytes // 2)
    tail = read_at(stream.fileno(), size - keep_bytes // 2, keep_bytes // 2)
    return join_cut(head, tail, size, file)


def join_cut(head: bytes, tail: bytes, size: int, file: Path | None) -> str:
    """Head and tail of a text of `size` bytes, with a line between them that counts the rest.

    A character that was cut in two is left out.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    shown = decoder.decode(head)
    torn = len(decoder.getstate()[0])
    start = len(tail[:3]) - len(tail[:3].lstrip(_CONTINUATIONS))
    left_out = size - (len(head) - torn) - (len(tail) - start)
    where = f", whole text in {file}" if file else ""
    border = "" if shown.endswith("\n") or not shown else "\n"
    note = f"[... {left_out} bytes left out{where} ...]"
    return f"{_visible(shown)}{border}{note}\n{_text(tail[start:])}"


def _text(data: bytes) -> str:
    return _visible(data.decode("utf-8", "replace"))


def _visible(text: str) -> str:
    return text.replace("\0", "\\x00")


def _input(text: bytes) -> FileIO:
    """A file that holds `text`. A pipe would block if the child does not read."""
    if not text:
        return Path(os.devnull).open("rb", buffering=0)
    stdin = _nameless()
    write_all(stdin.fileno(), text)
    stdin.seek(0)
    return stdin


def _output(path: Path | None) -> FileIO:
    if path is None:
        file = _nameless()
        if os.name != "nt":  # two writers with separate positions would overwrite each other's text
            import fcntl  # noqa: PLC0415 - there is none on Windows

            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        return file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # never write through an old link
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return FileIO(os.open(path, flags, 0o600), "r+")


def _nameless() -> FileIO:
    # A temporary file without a name leaves nothing, even if this process is killed.
    return tempfile.TemporaryFile(buffering=0)
