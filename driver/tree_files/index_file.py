"""Reads and writes git's index: the entries, with the stat data that git notes of each file."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes

_HEADER = struct.Struct(">4sLL")
_ENTRY = struct.Struct(">10L")  # times with nanoseconds, device, inode, mode, owner, group, size
_NAME_LENGTH, _EXTENDED = 0x0FFF, 0x4000
_UNMERGED = 0x3000
_KIND, _FOLDER = 0o170000, 0o040000  # of a mode; folders stand for what a sparse index leaves out
_HIDDEN = 0x8000  # assumed to be unchanged
_SKIPPED = 0x4000  # in the second half of extended flags
_VERSIONS = (2, 3)
_32_BITS = 0xFFFFFFFF

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
    content = regular_bytes(index)
    id_bytes = hashlib.new(algorithm, usedforsecurity=False).digest_size
    try:
        magic, version, count = _HEADER.unpack_from(content)
        if magic != b"DIRC" or version not in _VERSIONS:
            raise ValueError(f"{index} has version {version}")
        if most is not None and count > most:
            raise ValueError(f"{index} has {count} entries")
        at = _HEADER.size
        for _ in range(count):
            noted = _ENTRY.unpack_from(content, at)
            flags_at = at + _ENTRY.size + id_bytes
            name = content[at + _ENTRY.size : flags_at].hex()
            flags = int.from_bytes(content[flags_at : flags_at + 2], "big")
            more = content[flags_at + 2 : flags_at + 4] if flags & _EXTENDED else b""
            if flags & _UNMERGED or noted[6] & _KIND == _FOLDER:
                raise ValueError(f"{index} has entries that are no files")
            if flags & _HIDDEN or int.from_bytes(more, "big") & _SKIPPED:
                raise ValueError(f"{index} hides the changes of a file")
            path_at = flags_at + 2 + len(more)
            length = flags & _NAME_LENGTH
            if length == _NAME_LENGTH:
                length = content.index(b"\0", path_at) - path_at
            yield os.fsdecode(content[path_at : path_at + length]), noted, name
            at += (path_at + length - at + 8) & ~7  # ends with one to eight zeros
    except struct.error as trouble:
        raise ValueError(f"{index} is cut off") from trouble


def noted_of(seen: os.stat_result, mode: str) -> Noted:
    """The stat data that git notes of a file with the mode `mode` in git."""
    changed, modified = divmod(seen.st_ctime_ns, 10**9), divmod(seen.st_mtime_ns, 10**9)
    rest = (seen.st_dev, seen.st_ino, int(mode, 8), seen.st_uid, seen.st_gid, seen.st_size)
    return tuple(number & _32_BITS for number in (*changed, *modified, *rest))


def write_index(index: Path, entries: Mapping[str, tuple[Noted, str]], algorithm: str) -> None:
    """Write an index with the stat data and id of each path, in git's object format
    `algorithm`."""
    lines = []
    for path, (noted, name) in sorted((os.fsencode(one), it) for one, it in entries.items()):
        line = _ENTRY.pack(*noted) + bytes.fromhex(name)
        line += min(len(path), _NAME_LENGTH).to_bytes(2, "big") + path
        lines.append(line + bytes(8 - len(line) % 8))
    whole = _HEADER.pack(b"DIRC", 2, len(lines)) + b"".join(lines)
    digest = hashlib.new(algorithm, whole, usedforsecurity=False).digest()
    fresh = index.with_name(f"{index.name}.{os.urandom(4).hex()}")
    fresh.write_bytes(whole + digest)
    fresh.replace(index)
