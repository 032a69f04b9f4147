"""Rules for what is told of a tracker that changed while a wave ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.watched_fields import changed_fields, watched_fields

TODO = {"id": "T-1", "status": "todo", "testCmd": "make test", "ownsFiles": ["a.py"]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"testCmd": "make nothing"}, "testCmd of T-1"),
        ({"fewerTests": 9, "ownsFiles": ["/"]}, "ownsFiles and fewerTests of T-1"),
        ({"notes": "mine", "prompt": "another one"}, ""),
        ({"status": "done", "testCmd": "make nothing"}, ""),
    ],
)
def test_what_loosens_a_later_proof_is_told(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    tracker = tmp_path / "tracker.json"
    tracker.write_text(json.dumps({"version": 1, "items": [TODO]}), encoding="utf-8")
    before = watched_fields(tracker)
    tracker.write_text(json.dumps({"version": 1, "items": [TODO | change]}), encoding="utf-8")
    warning = changed_fields(before, watched_fields(tracker))
    assert warning.endswith(told)
    assert bool(warning) == bool(told)
