"""The stat data that git notes in an index for each file that it writes."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from driver.filesystem.tree import Signature

_HEADER = struct.Struct(">4sLL")
_ENTRY = struct.Struct(">10L")  # times with nanoseconds, device, inode, mode, owner, group, size
_NAME_LENGTH, _EXTENDED = 0x0FFF, 0x4000
_HIDDEN = 0x8000  # assumed to be unchanged
_SKIPPED = 0x4000  # in the second half of extended flags
_VERSIONS = (2, 3)
_32_BITS = 0xFFFFFFFF
_SUBMODULE = stat.S_IFDIR | stat.S_IFLNK

Noted = tuple[int, ...]


def noted_in(index: Path, id_bytes: int) -> dict[str, Noted]:
    """The stat data of each path of an index whose object ids have `id_bytes` bytes. Raises
    ValueError for another format, and if git would not tell the changes of each file."""
    return {path: noted for path, noted, _ in entries_in(index, id_bytes)}


def entries_in(index: Path, id_bytes: int) -> Iterator[tuple[str, Noted, str]]:
    """The path, stat data and id of each entry of an index, as `noted_in` reads it."""
    content = index.read_bytes()
    try:
        magic, version, count = _HEADER.unpack_from(content)
        if magic != b"DIRC" or version not in _VERSIONS:
            raise ValueError(f"{index} has version {version}")
        at = _HEADER.size
        for _ in range(count):
            noted = _ENTRY.unpack_from(content, at)
            flags_at = at + _ENTRY.size + id_bytes
            name = content[at + _ENTRY.size : flags_at].hex()
            flags = int.from_bytes(content[flags_at : flags_at + 2], "big")
            more = content[flags_at + 2 : flags_at + 4] if flags & _EXTENDED else b""
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


def differing(
    seen: Mapping[str, Signature],
    before: Mapping[str, Signature],
    noted: Mapping[str, Noted],
    others: Mapping[str, Signature],
) -> list[str]:
    """The paths that are neither as git wrote them nor, beside its files, as in `others`. A path
    with the same signature in `before` is known to be right."""
    folders = _folders_of(noted)
    wrong = [path for path in noted if path not in seen]
    for path, signature in seen.items():
        if before.get(path) == signature:
            continue
        if path in noted:
            is_right = _matches(signature, noted[path])
        elif path in folders:
            is_right = stat.S_ISDIR(signature[0])
        else:
            is_right = others.get(path) == signature
        if not is_right:
            wrong.append(path)
    return wrong


def _folders_of(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _matches(signature: Signature, noted: Noted) -> bool:
    changed, changed_ns, modified, modified_ns, _, inode, mode, _, _, size = noted
    if len(signature) == 1:
        return stat.S_IFMT(mode) == _SUBMODULE
    _, own_size, own_modified, own_changed, own_inode, *_ = signature
    return (
        own_size & _32_BITS == size
        and own_inode & _32_BITS == inode
        and _same_time(own_modified, modified, modified_ns)
        and _same_time(own_changed, changed, changed_ns)
    )


def _same_time(own: int, seconds: int, nanoseconds: int) -> bool:
    """True for the same time. Some builds of git note seconds only."""
    own_seconds, own_ns = divmod(own, 10**9)
    return own_seconds & _32_BITS == seconds and (not nanoseconds or own_ns == nanoseconds)
