"""The folder in which one run of the tests makes all its temporary folders.

Runs that share pytest's own folder disturb each other: each one that starts takes from it the
rights by which tests let another user in, and removes what older runs have left.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 << 30
PREFIX = "tidegate-tests-"
ROOT = "PYTEST_DEBUG_TEMPROOT"  # pytest's own variable
OWN = pytest.StashKey[Path]()


def begin(config: pytest.Config) -> None:
    """Make the folder of this run. The default run and `more` write to memory where they can, as
    their many flushes wait for the disk a third of the time. What is measured, and sweeps, use the
    disk."""
    if ROOT in os.environ or config.option.basetemp is not None:
        return
    marks = config.option.markexpr
    is_usual = "not bench" in marks or marks == "more"
    above = IN_MEMORY if is_usual and _is_roomy(IN_MEMORY) else Path(tempfile.gettempdir())
    for left in above.glob(f"{PREFIX}*"):
        pid = left.name.removeprefix(PREFIX)
        if pid.isdecimal() and (int(pid) == os.getpid() or not _is_running(int(pid))):
            shutil.rmtree(left, ignore_errors=True)
    own = above / f"{PREFIX}{os.getpid()}"
    own.mkdir()
    config.stash[OWN] = own
    os.environ[ROOT] = str(own)


def end(config: pytest.Config, *, failed: bool) -> None:
    """Remove the folder, unless a test failed: then it stays for a look, until the next run."""
    own = config.stash.get(OWN, None)
    if own is not None and own.name == f"{PREFIX}{os.getpid()}":  # not in a forked process
        del config.stash[OWN], os.environ[ROOT]
        if not failed:
            shutil.rmtree(own, ignore_errors=True)


def _is_roomy(folder: Path) -> bool:
    """True if programs can be written and started there, and enough of it is free."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    found = os.statvfs(folder)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > ROOM_BYTES


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # where the question would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
