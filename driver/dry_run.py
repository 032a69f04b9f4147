"""What a wave would do, told without doing any of it: the manifest, the command, the prompts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from driver.agent_driver import AgentDriver
from driver.manifest import WorkItem, parse_manifest
from driver.prompts import build_prompt


def describe_dry_run(driver: AgentDriver, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Keys: dry_run, backend, agent_command, manifest, prompts (slug to text).

    Raises ManifestError like the real thing.
    """
    parsed = parse_manifest(manifest, new_wave_id=lambda: str(uuid.uuid4()))
    with_rules = driver.probe_capabilities().worker_filesystem_access
    return {
        "dry_run": True,
        "backend": driver.describe(),
        "agent_command": list(driver.command_line()),
        "manifest": dict(manifest),
        "prompts": {item.slug: _prompt(item, with_rules) for item in parsed.items},
    }


def _prompt(item: WorkItem, with_rules: bool) -> str:
    return build_prompt(item, with_rules=with_rules)
