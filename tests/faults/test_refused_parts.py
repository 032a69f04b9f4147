"""A scheduler killed while it ships in parts, because the remote refuses the content of one item:
what the remote takes is there once in the end, and the refused item never."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.killing import Yard
from tests.support.repos import hook

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

SLUGS = ("a", "b", "c", "d")
RULE = """
while read old new ref; do
  case $old in *[!0]*) range="$old..$new";; *) range="$new --not --all";; esac
  if git log --format=%B $range | grep -q 'Item-Slug: c$'; then
    echo "a commit breaks a rule" >&2
    exit 1
  fi
done
"""


def tracked(yard: Yard) -> dict[str, dict[str, Any]]:
    items = json.loads(yard.tracker.read_text(encoding="utf-8"))["items"]
    return {item["slug"]: item for item in items}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "point",
    [
        "git.before_push",
        "git.after_push",
        "git.after_push@2",
        "git.before_push@3",
        "git.after_push@3",
        pytest.param("git.before_push@2", marks=pytest.mark.sweep),
        pytest.param("git.before_push@4", marks=pytest.mark.sweep),
        pytest.param("git.after_push@4", marks=pytest.mark.sweep),
    ],
)
def test_a_kill_between_two_parts_doubles_and_loses_nothing(point: str, tmp_path: Path) -> None:
    yard = Yard(tmp_path, slugs=SLUGS)
    hook(yard.remote.path / "hooks", "pre-receive", RULE)
    assert yard.run(f"{point}=kill").code == -signal.SIGKILL
    said = [yard.run().err for _ in range(2)]
    there = yard.commits()
    assert {name: len(found) for name, found in there.items()} == {"A": 1, "B": 1, "D": 1}, said
    assert all(one.tree == one.proved for found in there.values() for one in found)
    items = tracked(yard)
    shipped = [slug for slug, item in items.items() if item["status"] == "in_progress"]
    assert shipped == ["a", "b", "d"]
    # A run that finds c announced alone cannot know that the remote takes others, so c waits.
    assert (items["c"]["status"], items["c"]["attempts"]) in {("todo", 0), ("todo", 1)}, said
    assert "a commit breaks a rule" in items["c"]["lastError"]
    assert yard.dispatched() == {"a": 1, "b": 2, "c": 1, "d": 1}  # b is repaired once
    assert yard.marked.alive() == []
