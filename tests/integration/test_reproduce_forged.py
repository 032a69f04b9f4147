"""`tools/reproduce.py` on commits that only say that a wave shipped them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.programs import Project, call, item
from tools.reproduce import main

pytestmark = [pytest.mark.in_walls, pytest.mark.usefixtures("at_home")]


@pytest.fixture(scope="module")
def forged(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A shipped commit, and a later one of another tree that says the same of itself."""
    made = Project(tmp_path_factory.mktemp("wave"), template)
    done = made.loop("--manifest", made.manifest(item("a"), wave_id="w1"))
    assert done.code == 0, done.err
    (branch,) = made.branches()
    message = made.git("show", "-s", "--format=%B", branch)
    tree = made.git("rev-parse", "main^{tree}").strip()
    said = re.sub(r"(?m)^Proved-Tree: .*$", f"Proved-Tree: {tree}", message)
    said = re.sub(r"(?m)^Test-Command: .*$", "Test-Command: true", said)
    commit = made.git("commit-tree", tree, "-p", branch, "-m", said).strip()
    made.git("update-ref", f"refs/heads/{branch}", commit)
    return made


def differences(project: Project, top: Path, state: Path, code: int) -> list[str]:
    words = ("w1", "a", "--repo", top, "--state-dir", state, "--config", project.config, "--json")
    done = call(main, *words)
    assert done.code == code, done.err
    found: list[str] = json.loads(done.out)["differences"]
    return found


def test_a_commit_that_no_receipt_is_of_is_different(forged: Project, tmp_path: Path) -> None:
    assert "none of them is green" in differences(forged, forged.top, forged.state, 1)[0]
    copy = tmp_path / "copy"
    shutil.copytree(forged.top, copy, symlinks=True)
    assert "none of them is green" in differences(forged, copy, forged.state, 1)[0]


def test_without_the_state_folder_a_commit_is_taken_by_its_word(
    forged: Project, tmp_path: Path
) -> None:
    assert differences(forged, forged.top, tmp_path / "none", 0) == []
