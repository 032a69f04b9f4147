"""What a wave was run with, as JSON: everything that has a say in what it does. Pure.

No value of the environment is in it, and no address that may hold a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from driver.pipeline.definition import digest_of

VERSION = 1
_LEFT_OUT = ("environ", "files")
_PRIVATE = ("remote",)


def canonical(settings: Any) -> Any:
    """Settings as JSON: names and numbers, no environment, nothing private."""
    if is_dataclass(settings):
        names = [one.name for one in fields(settings) if one.name not in _LEFT_OUT]
        told = {name: getattr(settings, name) for name in names}
        return {n: _hidden(v) if n in _PRIVATE else canonical(v) for n, v in told.items()}
    if isinstance(settings, Mapping):
        return {str(key): canonical(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [canonical(one) for one in settings]
    return str(settings) if isinstance(settings, Path) else settings


def _hidden(value: object) -> str | None:
    return None if value is None else "(set)"


def document(**facts: Any) -> dict[str, Any]:
    """The snapshot with its version and the digest of the configuration in it."""
    config = facts["resolvedConfig"]
    return {"snapshotVersion": VERSION, **facts, "configHash": digest_of(config)}
