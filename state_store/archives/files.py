"""`FileArchives`: archives in files of a state folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

from state_store.archives.segments import FOLDER, archive_path, archives_in
from state_store.sql.connection import Connection


class StagedFile(Protocol):
    """A flushed file of another name; see `documents.files`."""

    path: Path

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def swap_in(self) -> None:
        """Give it the name `path`."""


class FileArchives:
    """Archives in files of a state folder. `stage` is needed to write new ones."""

    def __init__(
        self, state_dir: Path, stage: Callable[[Path, bytes], StagedFile] | None = None
    ) -> None:
        self._state_dir, self._stage = state_dir, stage

    def place(self, number: int) -> Path:
        """The file of an archive."""
        return archive_path(self._state_dir, number)

    def part(self, number: int, start: int, size: int) -> bytes | None:
        """Some bytes of a file; None if it is missing. Raises OSError."""
        path = self.place(number)
        if not path.is_file():  # a pipe would be waited for
            return None
        with path.open("rb") as stream:
            stream.seek(start)
            return stream.read(size)

    def size(self, number: int) -> int:
        """The size of a file."""
        return self.place(number).stat().st_size

    def newest(self) -> int:
        """The number of the newest file; 0 without any."""
        return max(archives_in(self._state_dir), default=0)

    @contextmanager
    def staged(self, body: bytes) -> Iterator[_StagedArchive]:
        """A file of another name, which is removed unless it was kept."""
        assert self._stage
        with self._stage(self._state_dir / FOLDER / "new.jsonl.gz", body) as file:
            yield _StagedArchive(file, self)


class _StagedArchive:
    def __init__(self, file: StagedFile, archives: FileArchives) -> None:
        self._file, self._archives = file, archives

    def keep(self, _: Connection, number: int) -> Path:
        """Give the file its name. Its folder must be flushed before the commit."""
        self._file.path = self._archives.place(number)
        self._file.swap_in()
        return self._file.path
