"""Temporary folders. A killed run may leave some behind."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

_PREFIX = "tidegate-scratch-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, removed when the block ends. Its name tells whose it is."""
    prefix = f"{_PREFIX}{counted_here()}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder)


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """The folder for temporary files of this user."""
    return Path(environ.get("TMPDIR") or environ.get("TEMP") or tempfile.gettempdir())


def scratch_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """The existing scratch folders of this user, some of them possibly in use."""
    for folder in sorted(temporary_folder(environ).glob(f"{_PREFIX}*")):
        with suppress(OSError):
            is_ours = os.name == "nt" or folder.lstat().st_uid == os.geteuid()
            if is_ours and folder.is_dir() and not folder.is_symlink():
                yield folder


def scratch_of_dead(environ: Mapping[str, str]) -> Iterator[Path]:
    """The scratch folders of processes that have ended. Processes of another machine, boot or
    container are not seen from here, so their folders are left alone."""
    for folder in scratch_folders(environ) if counted_here() else ():
        counted, _, rest = folder.name.removeprefix(_PREFIX).partition("-")
        pid = rest.partition("-")[0]
        if counted == counted_here() and pid.isdigit() and not Path("/proc", pid).exists():
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
