"""Items with a pipeline of their own, who works in its phases, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.backend_api.driver import Usage, WorkerResult
from tests.support.waves import BILLED, Agent, Scene, ScriptedDriver, Step, item, writes

QUIET = '[verify]\nred_first = "off"\ncanary = false\n'
IMPLEMENT = {"name": "implement", "kind": "agent"}
GATE = {"name": "gate", "kind": "gate"}
REVIEW = {"name": "review", "kind": "review", "repair": ["address", "gate"]}
DOCS = {"name": "docs", "kind": "agent", "writes": ["docs/", "*.md"]}
PR = {"name": "pr-description", "kind": "agent", "permissions": "read-only"}
PUBLISH = {"name": "publish", "kind": "publish"}
WHOLE: list[Mapping[str, Any]] = [IMPLEMENT, GATE, REVIEW, DOCS, PR, PUBLISH]
GOOD = writes(a__txt="good\n")


def one(*phases: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """An item with a pipeline of its own."""
    given = {"repairCap": 1, "spotCheckFrac": 0, "pipeline": list(phases)}
    owned = ["a.txt", "docs/", "README.md"]
    return item("a", owned, "grep -q good a.txt", **{**given, **more})


def says(
    word: str = "approve",
    *whys: str,
    usage: Usage = BILLED,
    model: str | None = None,
    **more: Any,
) -> Step:
    """A reviewer that answers by its backend's structured field; `more` is put into its answer."""

    def review(agent: Agent) -> WorkerResult:
        found = [
            {"file": "a.txt", "line": 1, "severity": "major", "why": why, "check": "look"}
            for why in whys
        ]
        nonce = agent.request.environment["TIDEGATE_NONCE"]
        told = {"nonce": nonce, "verdict": word, "summary": "seen", "findings": found, **more}
        return WorkerResult("", ok=True, structured=told, usage=usage, model=model)

    return review


def answers(text: str) -> Step:
    return lambda agent: WorkerResult("", ok=True, text=text, usage=BILLED)


def played(
    scene: Scene, steps: Sequence[Step], made: Mapping[str, Any], **more: Any
) -> tuple[dict[str, Any], ScriptedDriver, dict[str, Any]]:
    report, driver = scene.play({"a": steps}, [made], **more)
    [record] = report["built"]
    return report, driver, record


def phases_asked(driver: ScriptedDriver) -> list[str]:
    return [request.environment["TIDEGATE_PHASE"] for request in driver.requests]


def statuses(record: Mapping[str, Any]) -> list[str]:
    return [f"{p['phase']}:{p['status']}" for p in record["phases"]]
