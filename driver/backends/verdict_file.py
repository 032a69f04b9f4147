"""The file in which a program gives a structured answer: whole, of one object, or none at all."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from state_store import strict_json

MAX_VERDICT_BYTES = 2**20


def read_verdict(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The object that a program was asked to write, and a warning when what it wrote is none."""
    try:
        # The program chose what lies here: a pipe or a device must not hold us up.
        if not stat.S_ISREG(path.lstat().st_mode):
            return None, "the verdict file is not a regular file"
        with path.open("rb") as file:
            content = file.read(MAX_VERDICT_BYTES + 1)
        if len(content) > MAX_VERDICT_BYTES:
            return None, f"the verdict file is larger than {MAX_VERDICT_BYTES} bytes"
        found = strict_json.parse(content.decode("utf-8"))
    except FileNotFoundError:
        return None, "there is no verdict file"
    except (OSError, ValueError) as error:
        return None, f"the verdict file cannot be used ({error})"
    return (found, "") if isinstance(found, dict) else (None, "the verdict file holds no object")
