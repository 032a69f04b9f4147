"""The inputs of a wave as JSON: everything that has a say in what it does. Pure.

No value of the environment is in it, and no address that may hold a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from driver.git.command import redacted
from driver.pipeline.definition import digest_of

VERSION = 1
_LEFT_OUT = ("environ", "files")


def canonical(told: Any) -> Any:
    """Settings as JSON: names and numbers, no environment, no password within an address."""
    if is_dataclass(told):
        names = [one.name for one in fields(told) if one.name not in _LEFT_OUT]
        return {name: canonical(getattr(told, name)) for name in names}
    if isinstance(told, Mapping):
        return {str(key): canonical(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [canonical(one) for one in told]
    return redacted(str(told)) if isinstance(told, str | Path) else told


def document(**facts: Any) -> dict[str, Any]:
    """The snapshot with its version and the digest of the configuration in it."""
    config = facts["resolvedConfig"]
    return {"snapshotVersion": VERSION, **facts, "configHash": digest_of(config)}
