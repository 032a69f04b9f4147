"""Reads and writes git's index: the entries, with the stat data that git notes of each file."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.filesystem.safe_file_access import regular_bytes

_HEADER = struct.Struct(">4sLL")
# Times with nanoseconds, device, inode, mode, owner, group, size; then the id and the flags.
_ENTRIES = {"sha1": struct.Struct(">10L20sH"), "sha256": struct.Struct(">10L32sH")}
_STATS = 10
_NAME_LENGTH, _EXTENDED = 0x0FFF, 0x4000
_UNMERGED = 0x3000
_KIND, _FOLDER = 0o170000, 0o040000  # of a mode; folders stand for what a sparse index leaves out
_HIDDEN = 0x8000  # assumed to be unchanged
_SKIPPED = 0x4000  # in the second half of extended flags
_VERSIONS = (2, 3)
_32_BITS = 0xFFFFFFFF
_SECOND = 10**9  # in nanoseconds
_MODE = 6  # of the stat data

Noted = tuple[int, ...]


def noted_in(index: Path, algorithm: str) -> dict[str, Noted]:
    """The stat data of each path of an index in git's object format `algorithm`. Raises ValueError
    for another version, and if git would not tell the changes of each file."""
    return {path: noted for path, noted, _ in entries_in(index, algorithm)}


def entries_in(
    index: Path, algorithm: str, most: int | None = None
) -> Iterator[tuple[str, Noted, str]]:
    """The path, stat data and id of each entry of an index, as `noted_in` reads it. More than
    `most` raise ValueError as well."""
    layout = _ENTRIES[algorithm]
    for path, fields, _ in _entries(index, regular_bytes(index), layout, most):
        yield path, fields[:_STATS], fields[_STATS].hex()


def without_extensions(index: Path, algorithm: str) -> dict[str, tuple[str, str]]:
    """Remove from an index all that git keeps there beside the entries; returns the mode and id of
    each path. Raises ValueError as `noted_in` does, and if git would not write such entries for
    the files of a tree."""
    content, found, end = regular_bytes(index), dict[str, tuple[str, str]](), _HEADER.size
    for path, fields, end in _entries(index, content, _ENTRIES[algorithm]):  # noqa: B007
        if path in found or fields[-1] & _EXTENDED:
            raise ValueError(f"{index} has an unusual entry for {path}")
        found[path] = (f"{fields[_MODE]:o}", fields[_STATS].hex())
    if [*found] != sorted(found, key=os.fsencode):
        raise ValueError(f"{index} is not sorted")
    _replace(index, content[:end], algorithm)
    return found


def _entries(
    index: Path, content: bytes, layout: struct.Struct, most: int | None = None
) -> Iterator[tuple[str, tuple[Any, ...], int]]:
    """The path and fields of each entry of an index with this content, and where the entry ends."""
    try:
        magic, version, count = _HEADER.unpack_from(content)
        if magic != b"DIRC" or version not in _VERSIONS:
            raise ValueError(f"{index} has version {version}")
        if most is not None and count > most:
            raise ValueError(f"{index} has {count} entries")
        at = _HEADER.size
        for _ in range(count):
            fields = layout.unpack_from(content, at)
            flags, path_at = fields[-1], at + layout.size
            if flags & _UNMERGED or fields[_MODE] & _KIND == _FOLDER:
                raise ValueError(f"{index} has entries that are no files")
            more = b""
            if flags & _EXTENDED:
                more, path_at = content[path_at : path_at + 2], path_at + 2
            if flags & _HIDDEN or int.from_bytes(more, "big") & _SKIPPED:
                raise ValueError(f"{index} hides the changes of a file")
            length = flags & _NAME_LENGTH
            if length == _NAME_LENGTH:
                length = content.index(b"\0", path_at) - path_at
            at += (path_at + length - at + 8) & ~7  # ends with one to eight zeros
            yield os.fsdecode(content[path_at : path_at + length]), fields, at
    except struct.error as trouble:
        raise ValueError(f"{index} is cut off") from trouble


def noted_of(seen: os.stat_result, mode: str) -> Noted:
    """The stat data that git notes of a file with the mode `mode` in git."""
    changed, modified = seen.st_ctime_ns, seen.st_mtime_ns
    return (
        changed // _SECOND & _32_BITS,
        changed % _SECOND,
        modified // _SECOND & _32_BITS,
        modified % _SECOND,
        seen.st_dev & _32_BITS,
        seen.st_ino & _32_BITS,
        int(mode, 8),
        seen.st_uid & _32_BITS,
        seen.st_gid & _32_BITS,
        seen.st_size & _32_BITS,
    )


def write_index(index: Path, entries: Mapping[str, tuple[Noted, str]], algorithm: str) -> None:
    """Write an index with the stat data and id of each path, in git's object format
    `algorithm`."""
    lines, pack = list[bytes](), _ENTRIES[algorithm].pack
    for path, (noted, name) in sorted((os.fsencode(one), it) for one, it in entries.items()):
        line = pack(*noted, bytes.fromhex(name), min(len(path), _NAME_LENGTH)) + path
        lines.append(line + bytes(8 - len(line) % 8))
    _replace(index, _HEADER.pack(b"DIRC", 2, len(lines)) + b"".join(lines), algorithm)


def _replace(index: Path, content: bytes, algorithm: str) -> None:
    digest = hashlib.new(algorithm, content, usedforsecurity=False).digest()
    fresh = index.with_name(f"{index.name}.{os.urandom(4).hex()}")
    fresh.write_bytes(content + digest)
    fresh.replace(index)
