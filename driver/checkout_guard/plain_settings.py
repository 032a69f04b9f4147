"""Reads configuration files of git without a process, if they are so plain that git would read the
same."""

from __future__ import annotations

import re
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes

_MOST_LINES = 2000  # git is faster for more
_SECTION = re.compile(r'\[([A-Za-z0-9-]+)(?: "([^"\\\]]*)")?\]')
# No quotes, escapes, comments, odd spaces or values that go on in the next line.
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*) *= *([!$-:<-\[\]-~]+(?: [!$-:<-\[\]-~]+)*)? *")


def plain_settings(path: Path) -> list[tuple[str, str]] | None:
    """Each key with its value, in order, as `git config --list` tells them; None if git has to be
    asked."""
    try:
        lines = regular_bytes(path).decode("ascii").split("\n")
    except (OSError, ValueError):
        return None
    if len(lines) > _MOST_LINES:
        return None
    found, section = list[tuple[str, str]](), ""
    for line in (one.strip(" \t") for one in lines):
        if not line or line[0] in "#;":
            continue
        if head := _SECTION.fullmatch(line):
            section = head[1].lower() + (f".{head[2]}" if head[2] is not None else "")
        elif (setting := _SETTING.fullmatch(line)) and section:
            found.append((f"{section}.{setting[1].lower()}", setting[2] or ""))
        else:
            return None
    return found
