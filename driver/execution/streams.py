"""The three streams of a run, as files, and the bounded text that is kept of them.

They are files, not pipes: the child goes on although nothing reads them, and a grandchild that
keeps one open cannot block this process. Starts and ends no process.
"""

from __future__ import annotations

import codecs
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from driver.execution.command import Command

_CONTINUATIONS = bytes(range(0x80, 0xC0))  # every byte of a UTF-8 character but its first


@dataclass(frozen=True, slots=True)
class Streams:
    """The open files; the paths are None when only the text in memory will remain."""

    stdin: FileIO
    stdout: FileIO
    stderr: FileIO
    stdout_file: Path | None
    stderr_file: Path | None

    def fds(self) -> tuple[int, int, int]:
        """The descriptors in the order of their numbers in the child."""
        return self.stdin.fileno(), self.stdout.fileno(), self.stderr.fileno()

    def last_written(self) -> float:
        """The time at which an output last grew, in seconds of the wall clock."""
        return max(os.fstat(file.fileno()).st_mtime for file in (self.stdout, self.stderr))

    def writers(self) -> list[int]:
        """The processes that have these files as output, where /proc shows them."""
        ours = [os.fstat(file.fileno()) for file in (self.stdout, self.stderr)]
        pids = [path.name for path in Path("/proc").glob("[0-9]*")]
        found = set[int]()
        for pid, number in itertools.product(pids, (1, 2)):
            with suppress(OSError):  # it ended meanwhile, or is another user's
                printed = Path(f"/proc/{pid}/fd/{number}").stat()
                if any(os.path.samestat(printed, file) for file in ours):
                    found.add(int(pid))
        return sorted(found)


@contextmanager
def open_streams(command: Command) -> Iterator[Streams]:
    """The streams for one run of `command`; raises OSError if they cannot be created."""
    prefix = command.output
    out, err = (None if prefix is None else Path(f"{prefix}{end}") for end in (".out", ".err"))
    with _input(command.stdin) as stdin, _output(out) as stdout, _output(err) as stderr:
        yield Streams(stdin, stdout, stderr, out, err)


def write_all(fd: int, data: bytes) -> None:
    """Write to the last byte, however little the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def kept_text(stream: FileIO, keep_bytes: int, file: Path | None) -> str:
    """The whole text when it is at most `keep_bytes` long, else its head and its tail.

    Memory is bounded by `keep_bytes` whatever the size of the file.
    """
    size = os.fstat(stream.fileno()).st_size
    if size <= keep_bytes:
        return _text(_read_at(stream, 0, size))
    head = _read_at(stream, 0, keep_bytes - keep_bytes // 2)
    tail = _read_at(stream, size - keep_bytes // 2, keep_bytes // 2)
    return join_cut(head, tail, size, file)


def join_cut(head: bytes, tail: bytes, size: int, file: Path | None) -> str:
    """Head and tail of a text of `size` bytes, with a line between them that counts the rest.

    A character that a cut went through is left out rather than shown as damaged.
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


def _read_at(stream: FileIO, start: int, size: int) -> bytes:
    stream.seek(start)
    got = b""
    while len(got) < size and (chunk := stream.read(size - len(got))):
        got += chunk
    return got


def _input(text: bytes) -> FileIO:
    """A file to read `text` from: a pipe could block when the child does not read."""
    if not text:
        return Path(os.devnull).open("rb", buffering=0)
    stdin = _nameless()
    write_all(stdin.fileno(), text)
    stdin.seek(0)
    return stdin


def _output(path: Path | None) -> FileIO:
    if path is None:
        file = _nameless()
        if os.name != "nt":  # two writers with a position each would overwrite one another
            import fcntl  # noqa: PLC0415 - there is none on Windows

            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        return file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # never write through a link that was left there
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return FileIO(os.open(path, flags, 0o600), "r+")


def _nameless() -> FileIO:
    # Nothing to remove afterwards, not even when this process is killed.
    return tempfile.TemporaryFile(buffering=0)
