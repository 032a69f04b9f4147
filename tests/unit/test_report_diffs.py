"""The changes of items, bounded however long their lines are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from driver.reports.diffs import Diff, diffs


def git(repo: Path, *words: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", str(repo), *named, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


def of_commit(folder: Path, content: bytes) -> Diff:
    git(folder, "init", "-q")
    (folder / "x.txt").write_bytes(content)
    git(folder, "add", "x.txt")
    git(folder, "commit", "-qm", "x")
    record = {"slug": "a", "commit": git(folder, "rev-parse", "HEAD")}
    report = {"built": [record], "shipped_repos": [{"repo": str(folder)}]}
    return diffs(report, os.environ)["a"]


@pytest.mark.parametrize("size", [300_000, 9_000_000])
def test_a_commit_with_one_very_long_line_is_counted_and_not_kept(
    tmp_path: Path, size: int
) -> None:
    found = of_commit(tmp_path, b"x" * size + b"\n")
    assert (found.size.files, found.size.added) == (1, 1)
    assert len(found.text) < 1000
    assert found.why_not == "more than 256 KB" or "Binary files" in found.text


def test_a_binary_change_and_a_short_one_are_shown(tmp_path: Path) -> None:
    assert "+short" in of_commit(tmp_path, b"short\n").text
    (tmp_path / "b").mkdir()
    assert "Binary files" in of_commit(tmp_path / "b", b"\0\1").text


def test_a_patch_with_one_very_long_line_is_counted_and_not_kept(tmp_path: Path) -> None:
    patch = tmp_path / "p.patch"
    patch.write_bytes(b"diff --git a/x b/x\n--- a/x\n+++ b/x\n+" + b"x" * 300_000 + b"\n")
    found = diffs({"built": [{"slug": "a", "savedWork": str(patch)}]}, os.environ)["a"]
    assert (found.size.added, found.text, found.why_not) == (1, "", "more than 256 KB")
