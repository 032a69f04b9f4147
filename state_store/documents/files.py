"""Writes files atomically, and reads them without blocking.

A write replaces a link, and never follows it. A read never waits, for any kind of file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, Self

from state_store.documents import strict_json
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.failpoints import failpoint
from state_store.documents.indented_json import indented
from state_store.redaction.installed import redacted, redacted_value

MAX_BYTES = 64 * 2**20
_AT_REST_NS = 2_000_000_000  # file systems count time in steps of up to two seconds
Identity = tuple[int, ...]
Part = bytes | memoryview
_REPLACE_WAITS_S = (0.01, 0.05, 0.2, 0.5)


class BadFileError(InputError):
    """A file is missing or unusable. `why` follows its name in the message."""

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path} {why}")


class MissingFileError(BadFileError):
    """The file does not exist."""


class StagedFile:
    """A flushed temporary file with `body` and what follows it, in the folder of the `path` to
    replace.

    Creating it does the slow part of a write, and creates a missing folder; `swap_in` does the
    rest. It has the permissions of the replaced file. The caller must `drop` it, or use it as a
    context. All methods raise CannotRunError with `path`.
    """

    def __init__(self, path: Path, body: bytes, more: Iterable[Part] = ()) -> None:
        self.path, self.body = path, body
        self.fresh = path.parent / f".{os.urandom(8).hex()}.tmp"  # `path` may be at the limit
        try:
            with disk_trouble(path):
                make_folder(path.parent)
                mode = _mode_of(path)
                with self.fresh.open("xb") as stream:
                    if mode is not None:
                        self.fresh.chmod(mode)
                    parts = chain((body,), more)
                    failpoint(
                        "file.write",
                        lambda n: os.write(stream.fileno(), b"".join(map(bytes, parts))[:n]),
                    )
                    stream.writelines(parts)
                    stream.flush()
                    os.fsync(stream.fileno())
        except BaseException:
            self.drop()
            raise

    @classmethod
    def of_json(cls, path: Path, obj: Any, indent: int | None = 2) -> Self:
        """Stage `obj` as JSON and a newline. Raises ValueError or TypeError if it is not JSON."""
        text = _json_text(obj, indent, ensure_ascii=False)
        if redacted(text) != text:  # each text by itself, so that it stays JSON
            obj = redacted_value(obj)
            text = _json_text(obj, indent, ensure_ascii=False)
        try:
            body = f"{text}\n".encode()
        except UnicodeEncodeError:  # half a surrogate pair, as in an undecodable file name
            body = f"{_json_text(obj, indent, ensure_ascii=True)}\n".encode()
        return cls(path, body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def swap_in(self, *, sync: bool = False) -> None:
        """Replace the file at `path`. Durable with `sync`, else after `sync_folder`, which can
        serve many files."""
        with disk_trouble(self.path):
            failpoint("file.before_replace")
            _replace(self.fresh, self.path)
            if sync:
                _sync_folder(self.path.parent)
            failpoint("file.after_replace")

    def drop(self) -> None:
        """Remove the temporary file unless it was swapped in."""
        with suppress(OSError):
            self.fresh.unlink()


def _json_text(obj: Any, indent: int | None, *, ensure_ascii: bool) -> str:
    if indent == 2:
        return indented(obj, allow_nan=False, ensure_ascii=ensure_ascii)
    return json.dumps(obj, indent=indent, allow_nan=False, ensure_ascii=ensure_ascii)


def write_json_atomic(path: Path, obj: Any, indent: int | None = 2) -> None:
    """Replace `path` by `obj` as JSON and a newline, as `write_text_atomic` does.

    Raises ValueError or TypeError, before any write, if `obj` is not JSON (NaN is not).
    """
    with StagedFile.of_json(path, obj, indent) as staged:
        staged.swap_in(sync=True)


def write_text_atomic(path: Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8, durably. After a crash the file is old or new, never
    mixed.

    Half a surrogate pair, which UTF-8 cannot encode, becomes a question mark. Creates a missing
    folder, and keeps the permissions of the replaced file. Raises CannotRunError with the file's
    name if the write fails.
    """
    write_bytes_atomic(path, redacted(text).encode("utf-8", "replace"))


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Like `write_text_atomic`, for bytes."""
    with StagedFile(path, data) as staged:
        staged.swap_in(sync=True)


def replace_unflushed(path: Path, data: bytes) -> None:
    """Replace `path` at once, without flushing it to disk: for files that can be made again.

    Creates a missing folder. After a crash of the machine the file may be empty. Raises OSError.
    """
    make_folder(path.parent)
    fresh = path.parent / f".{os.urandom(8).hex()}.tmp"
    try:
        fresh.write_bytes(data)
        _replace(fresh, path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def write_text_where_named(path: Path, text: str) -> None:
    """Like `write_text_atomic`, for a path that the user named.

    A device or a pipe, such as `/dev/stdout`, is written and not replaced. Raises CannotRunError
    with the path.
    """
    if path.is_file() or not path.exists():
        write_text_atomic(path, text)
        return
    with disk_trouble(path), path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(redacted(text))


def replace_unchanged(path: Path, data: bytes, digest: str) -> bool:
    """Replace the file if its SHA-256 is `digest`, else return False.

    For files that people edit too, because editors do not use our locks.
    """
    with StagedFile(path, data) as staged, disk_trouble(path):
        with path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                return False
        staged.swap_in(sync=True)
    return True


def identity_of(found: os.stat_result) -> Identity:
    """The values of a file that change with every write."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def identity_at(path: Path) -> Identity:
    """The identity of the file at `path`, () if it cannot be asked for."""
    try:
        return identity_of(path.stat())
    except OSError:
        return ()


def is_at_rest(identity: Identity, now_ns: int) -> bool:
    """True if the file was not written so shortly before that its times may stay the same."""
    return max(identity[-2:]) < now_ns - _AT_REST_NS


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable. Raises CannotRunError."""
    with disk_trouble(folder):
        _sync_folder(folder)


def remove_file(path: Path) -> bool:
    """Remove a file, or a link without its target; False if there was none.

    Raises CannotRunError with its name.
    """
    return _removed(path, path.unlink)


def remove_whatever(path: Path) -> bool:
    """Like `remove_file`, also for an empty folder."""
    is_folder = path.is_dir() and not path.is_symlink()
    return _removed(path, path.rmdir if is_folder else path.unlink)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The text of a regular UTF-8 file, without a byte order mark. Raises BadFileError."""
    try:
        return read_bytes(path, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFileError(path, f"is not UTF-8 (byte {error.start})") from error


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """The JSON document in a file, parsed by `strict_json`.

    Raises BadFileError, and MissingFileError if there is no such file.
    """
    text = read_text(path, max_bytes)
    try:
        return strict_json.parse(text)
    except ValueError as error:
        raise BadFileError(path, f"is not valid JSON: {error}") from error


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file. Raises BadFileError and MissingFileError."""
    try:
        with open_regular(path) as stream:
            data = stream.read(max_bytes + 1)
    except FileNotFoundError as error:
        raise MissingFileError(path, "does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise BadFileError(path, f"cannot be read: {why}") from error
    if len(data) > max_bytes:
        raise BadFileError(path, f"is larger than {max_bytes} bytes")
    return data


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """A regular file, open for reading. Raises BadFileError for a pipe, a device or a folder, and
    OSError."""
    _require_regular(path, path.stat())  # to open a device may do something
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)  # non-blocking, or a FIFO would wait for a writer
    with os.fdopen(descriptor, "rb") as stream:
        _require_regular(path, os.fstat(descriptor))
        yield stream


def _require_regular(path: Path, found: os.stat_result) -> None:
    """Raises BadFileError for a pipe, a device, a folder."""
    if not stat.S_ISREG(found.st_mode):
        raise BadFileError(path, "is not a regular file")


def _removed(path: Path, remove: Callable[[], None]) -> bool:
    try:
        remove()
    except FileNotFoundError:
        return False
    except OSError as error:
        why = error.strerror or error
        raise CannotRunError(f"{path} cannot be removed: {why}; remove it by hand") from error
    return True


@contextmanager
def disk_trouble(path: Path) -> Iterator[None]:
    """Every OSError inside becomes a CannotRunError with `path`."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise CannotRunError(
            f"{path} cannot be written: {why}; free it or make room, then rerun"
        ) from error


if sys.platform == "win32":

    def _replace(source: Path, target: Path) -> None:
        for wait_s in _REPLACE_WAITS_S:  # a virus scanner or a reader may have the file open
            try:
                source.replace(target)
                return
            except PermissionError:
                time.sleep(wait_s)
        source.replace(target)

    def _sync_folder(folder: Path) -> None:
        """Windows cannot flush a folder."""

else:

    def _replace(source: Path, target: Path) -> None:
        """A rename is atomic and needs no second try."""
        source.replace(target)

    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_folder(path: Path) -> bool:
    """True for a folder; False, without an error, also for a path that no system takes."""
    return os.path.isdir(path)  # noqa: PTH112 - `Path.is_dir` raises for a long name


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, durably. Raises OSError."""
    if folder.is_dir() or folder == folder.parent:
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _mode_of(path: Path) -> int | None:
    """The permissions of a regular file; None for a link or folder."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None
