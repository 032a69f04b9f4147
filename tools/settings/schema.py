"""Lists every setting: its section, name, kind, default and flag.

The fields are in `work_sections` and `run_sections`; `sources` reads the values. A new setting is a
field there with a text below it, and docs/configuration.md is written anew from it by
tests/documents/write_documents.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tools.settings import kinds
from tools.settings.kinds import Kind
from tools.settings.run_sections import (
    AuditSettings,
    CheckpointSettings,
    LimitsSettings,
    NotifySettings,
    RoleSandboxSettings,
    SandboxSettings,
    SecretsSettings,
    ShipSettings,
    StateSettings,
)
from tools.settings.work_sections import (
    BackendSettings,
    PipelineSettings,
    ReviewSettings,
    VerifySettings,
    WorkspaceSettings,
)

__all__ = [
    "FLAGS",
    "KINDS",
    "OPTIONAL",
    "PRICES",
    "REVIEW_BACKEND",
    "SANDBOX_ROLES",
    "SECTIONS",
    "STATE_DIR",
    "AuditSettings",
    "BackendSettings",
    "CheckpointSettings",
    "LimitsSettings",
    "NotifySettings",
    "PipelineSettings",
    "ReviewSettings",
    "RoleSandboxSettings",
    "SandboxSettings",
    "SecretsSettings",
    "ShipSettings",
    "StateSettings",
    "VerifySettings",
    "WorkspaceSettings",
]

REVIEW_BACKEND = "review.backend"
SANDBOX_ROLES = ("agent", "test", "setup", "hook")
SECTIONS: Mapping[str, type[Any]] = {
    "backend": BackendSettings,
    "verify": VerifySettings,
    "workspace": WorkspaceSettings,
    "review": ReviewSettings,
    REVIEW_BACKEND: BackendSettings,
    "pipeline": PipelineSettings,
    "sandbox": SandboxSettings,
    **{f"sandbox.{role}": RoleSandboxSettings for role in SANDBOX_ROLES},
    "state": StateSettings,
    "ship": ShipSettings,
    "limits": LimitsSettings,
    "checkpoint": CheckpointSettings,
    "audit": AuditSettings,
    "notify": NotifySettings,
    "secrets": SecretsSettings,
}
STATE_DIR = "state_dir"
PRICES = "prices"
# The flags of both engine programs that set a value.
FLAGS: Mapping[str, str] = {
    "backend.name": "--driver",
    STATE_DIR: "--state-dir",
    "limits.max_workers": "--max-workers",
    "ship.target": "--target",
}
_FIELDS = {
    f"{section}.{one.name}": one for section, shape in SECTIONS.items() for one in fields(shape)
}
KINDS: Mapping[str, Kind] = {STATE_DIR: kinds.PATH, PRICES: kinds.PRICE_TABLE} | {
    name: one.metadata["kind"] for name, one in _FIELDS.items()
}
OPTIONAL = frozenset(name for name, one in _FIELDS.items() if one.default is None)
