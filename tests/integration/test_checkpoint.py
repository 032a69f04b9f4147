"""What a cycle leaves for people beside its wave: findings, proposed items, a branch with both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.programs import Project, git, item, says_good, tree_hash, writes

BRANCH = "tidegate/state"
COMMIT = f"[checkpoint]\ncommit = true\n"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA2cD4fG6hJ8"


def paths_on(project: Project, branch: str = BRANCH) -> list[str]:
    return project.git("ls-tree", "-r", "--name-only", branch).split()


def test_a_cycle_commits_both_files_to_a_branch_of_their_own_and_touches_nothing_else(
    project: Project,
) -> None:
    project.configure(COMMIT)
    project.track(item("a"))
    before = (tree_hash(project.top), project.git("status", "--porcelain", "--branch"))
    done = project.schedule()
    assert done.code == 0, done.err
    told = done.report["checkpoint"]
    print(json.dumps(done.report.get("findings"), indent=1), told)
    assert told["commit"] == project.git("rev-parse", BRANCH).strip()
