"""The inputs of a wave as JSON: every setting that affects its result. Pure. It has no value of the
environment, and no address that may contain a password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from driver.git.command import redacted
from driver.pipeline.definition import digest_of

VERSION = 1
_LEFT_OUT = ("environ", "files", "notify")  # an address of `notify` may be a secret


def canonical(value: Any) -> Any:
    """Settings as JSON: names and numbers, without environment and without passwords in
    addresses."""
    if is_dataclass(value):
        names = [one.name for one in fields(value) if one.name not in _LEFT_OUT]
        return {name: canonical(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): canonical(value) for key, value in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(one) for one in value]
    return redacted(str(value)) if isinstance(value, str | Path) else value


def document(**facts: Any) -> dict[str, Any]:
    """The snapshot with its version and the digest of its configuration."""
    config = facts["resolvedConfig"]
    return {"snapshotVersion": VERSION, **facts, "configHash": digest_of(config)}
