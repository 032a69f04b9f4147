"""What is kept of a branch's history is passed over where it cannot be what we wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driver.publishing.published_history import History
from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.in_walls

MESSAGE = "a\n\nWave-Id: w1\nItem-Id: A\n"


@dataclass(frozen=True)
class Repo:
    path: Path
    env: dict[str, str]
    tip: str


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository whose last commit tells of a shipment."""
    folder = tmp_path_factory.mktemp("histories")
    environ = user_environ(folder / "home")
    made = make_repo(folder / "repo", environ, {"a.txt": "a\n"})
    made.git("commit", "-q", "--allow-empty", "-m", MESSAGE)
    return Repo(folder / "repo" / ".git", environ, made.git("rev-parse", "HEAD").strip())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kept",
    [
        {"tip": "--help", "found": []},
        {"tip": "a\0b", "found": []},
        {"tip": "\ud800", "found": []},
        {"tip": "HEAD", "found": []},
        {"tip": "TIP", "found": [["w", "A", "task"]]},
        {"tip": "TIP", "found": [["w", "A", "task", "--all"]]},
        {"tip": "TIP", "found": [["w", "A", "task", "TIP", "branch"]]},
    ],
    ids=["an option", "a zero", "no text", "a name", "three", "an option found", "five"],
)
def test_a_kept_history_that_names_no_commits_is_made_anew(
    shipped: Repo, tmp_path: Path, kept: dict[str, Any]
) -> None:
    file = tmp_path / "kept.json"
    file.write_text(json.dumps(kept).replace("TIP", shipped.tip), encoding="utf-8")
    found = History(file).shipments(shipped, shipped.tip)
    assert [(one.wave, one.item, one.commit) for one in found] == [("w1", "A", shipped.tip)]
    assert json.loads(file.read_text(encoding="utf-8"))["tip"] == shipped.tip
