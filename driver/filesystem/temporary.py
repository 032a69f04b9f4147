"""Temporary folders. A killed run may leave some behind."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from driver.filesystem.tree import remove_tree

# Short, because tests make sockets below, and the path of a socket has about a hundred bytes.
_SHORT = re.compile(r"tg-(?P<counted>[0-9a-f]{8})-(?P<pid>\d+)-\w+")
_LONG = "tidegate-scratch-"


@contextmanager
def scratch_folder(parent: str | None = None) -> Iterator[Path]:
    """A temporary folder, removed when the block ends."""
    folder = new_scratch(parent)
    try:
        yield folder
    finally:
        remove_tree(folder)  # `tempfile` fails at the deep folders that a command may leave


def new_scratch(parent: str | None = None) -> Path:
    """A temporary folder, which its owner removes. Its name tells whose it is. Without `parent` it
    is in the usual folder of temporary files."""
    here = counted_here()[:8]
    prefix = f"tg-{here}-{os.getpid()}-" if here else _LONG
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """The folder for temporary files of this user."""
    return Path(environ.get("TMPDIR") or environ.get("TEMP") or tempfile.gettempdir())


def scratch_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """The existing scratch folders of this user, some of them possibly in use."""
    top = temporary_folder(environ)
    for folder in sorted([*top.glob(f"{_LONG}*"), *top.glob("tg-*")]):
        if not folder.name.startswith(_LONG) and not _SHORT.fullmatch(folder.name):
            continue
        with suppress(OSError):
            is_ours = os.name == "nt" or folder.lstat().st_uid == os.geteuid()
            if is_ours and folder.is_dir() and not folder.is_symlink():
                yield folder


def scratch_of_dead(environ: Mapping[str, str]) -> Iterator[Path]:
    """The scratch folders of processes that have ended. Processes of another machine, boot or
    container are not seen from here, so their folders are left alone."""
    here = counted_here()[:8]
    for folder in scratch_folders(environ) if here else ():
        found = _SHORT.fullmatch(folder.name)
        if found and found["counted"] == here and not Path("/proc", found["pid"]).exists():
            yield folder


@cache
def counted_here() -> str:
    """A word for this boot and container, in which each process number means one process; "" if
    the system tells neither."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        numbers = os.fsencode(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
    return hashlib.sha256(boot + numbers).hexdigest()[:12]
