"""Compares files on disk with the stat data that git notes in an index."""

from __future__ import annotations

import stat
from collections.abc import Mapping

from driver.filesystem.tree import Signature, folders_above
from driver.tree_files.index_file import Noted

_32_BITS = 0xFFFFFFFF
_SUBMODULE = stat.S_IFDIR | stat.S_IFLNK


def differing(
    seen: Mapping[str, Signature],
    before: Mapping[str, Signature],
    noted: Mapping[str, Noted],
    others: Mapping[str, Signature],
) -> list[str]:
    """The paths that are neither as git wrote them nor, beside its files, as in `others`. A path
    with the same signature in `before` is known to be right."""
    folders = folders_above(noted)
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
