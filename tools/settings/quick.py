"""Reads the few settings that `status` shows, without the cost of loading all of them.

Only for the plain case: no file but `tidegate.toml`, and numbers as people write them. In any other
case the answer is None, and the caller loads the settings as always.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CEILINGS = ("max_wave_tokens", "max_daily_tokens", "max_wave_usd", "max_daily_usd")
_OTHERS = ("aesop.config.json", "pyproject.toml")
_NUMBER = re.compile(r"(\w+)\s*=\s*(\d[\d_]*(?:\.\d[\d_]*)?)\s*(?:#.*)?")
_NOT_PLAIN = ("state_", '"""', "'''")
_STATE = re.compile(r"state\s*[.=]")
_TABLE = re.compile(r"\[([\w.-]+)\]\s*(?:#.*)?")


def quick_ceilings(top: str, cwd: str, environ: Mapping[str, str]) -> dict[str, float] | None:
    """The ceilings of the project at `top` by name. None: load the settings."""
    if any(name.startswith(("TIDEGATE_LIMITS_", "TIDEGATE_STATE_U", "AESOP_")) for name in environ):
        return None
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    user = os.path.join(environ.get("APPDATA", "") or home, "tidegate", "tidegate.toml")
    texts = [_text(os.path.join(folder, name)) for folder in {top, cwd} for name in _OTHERS]
    if os.path.lexists(user) or any("tidegate" in text or "limits" in text for text in texts):
        return None
    return _ceilings(_text(os.path.join(top, "tidegate.toml")))


def _ceilings(text: str) -> dict[str, float] | None:
    found: dict[str, float] = {}
    table = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#") or not line:
            continue
        if header := _TABLE.fullmatch(line):
            table = header.group(1)
            continue
        named = [name for name in (*CEILINGS, "limits") if name in line]
        number = _NUMBER.fullmatch(line)
        if table == "state" or _STATE.match(line) or any(mark in line for mark in _NOT_PLAIN):
            return None
        if named and (number is None or table != "limits"):
            return None
        if number is not None and table == "limits" and number.group(1) in CEILINGS:
            found[number.group(1)] = float(number.group(2).replace("_", ""))
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def quick_top(folder: str) -> str:
    """The top of the repository that contains a folder, else the folder, as
    `tools.settings.load.top_of` finds it."""
    at = folder
    while True:
        git = os.path.join(at, ".git")
        if os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD")):
            return at
        at, below = os.path.dirname(at), at
        if at == below:
            return folder
