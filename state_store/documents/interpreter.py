"""Names the Python that runs, for commands that messages propose."""

from __future__ import annotations

import os
import sys
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
