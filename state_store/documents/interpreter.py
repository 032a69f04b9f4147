"""The Python that runs: its name, for commands that messages propose, and its collector."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def interpreter_name() -> str:
    """The interpreter that runs, as a remedy names it: without its folder if its name finds it."""
    name = Path(sys.executable).name
    folders = os.environ.get("PATH", "").split(os.pathsep)
    paths = (os.path.join(folder, name) for folder in folders)  # noqa: PTH118 - PATH may be odd
    found = next((path for path in paths if name and os.access(path, os.X_OK)), "")
    if found and os.path.realpath(found) == os.path.realpath(sys.executable):
        return name
    return sys.executable or "python3"


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector. A replay makes millions of objects without cycles, and the
    search takes a third of its time. Afterwards they count as old, and are not searched then."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # the caller's own frozen objects stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
