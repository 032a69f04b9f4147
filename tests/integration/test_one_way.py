"""An item goes one way, however it is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver.terminal.progress import RUN
from tests.support.pipelines import QUIET, says
from tests.support.waves import Scene, built, item, writes


def lived(folder: Path, **options: Any) -> tuple[list[str], list[Any]]:
    """The prompts that agents got, and what the report says of the item."""
    steps = [
        writes(a__txt="bad\n"),
        writes(b__txt="foreign\n"),
        writes(a__txt="good but\n"),
        says("request_changes"),
        writes(a__txt="good\n"),
        says("approve"),
    ]
    made = item("a", "a.txt", "grep -q good a.txt && test ! -e b.txt", repairCap=4)
    made |= {"requireAdversarialReview": True, "spotCheckFrac": 0}
    steps[2:2] = [lambda agent: (agent.folder / "b.txt").unlink()]
    scene = Scene(folder, {"base.txt": "x\n"}, config=QUIET)
    report, driver = scene.play({"a": steps}, [made], **options)
    record = built(report)["a"]
    keys = ("verdict", "tree", "repairs", "adversarial_review", "testExit", "filesWritten")
    attempts = [(a["number"], a["phase"], a["verdict"], a["reason"]) for a in record["attempts"]]
    reviews = [(r["round"], r["tree"], r["verdict"]) for r in record["reviews"]]
    worked = [r.prompt for r in driver.requests if "TIDEGATE_NONCE" not in r.environment]
    return worked, [report["shipped"], [record[key] for key in keys], attempts, reviews]


def test_who_is_asked_about_each_step_gets_what_nobody_was_asked_about(tmp_path: Path) -> None:
    alone = lived(tmp_path / "alone")
    asked = lived(tmp_path / "asked", ask=lambda slug, phase: RUN)
    assert alone == asked
    assert alone[1][0] == ["a"]
    assert [verdict for _, _, verdict, _ in alone[1][2]].count("verified") == 2
