"""`tools/reproduce.py` on commits that real waves shipped."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import ROOT, Project, Ran, call, item, run, says_good, tree_hash
from tools.reproduce import main

pytestmark = pytest.mark.usefixtures("at_home")


@pytest.fixture(scope="module")
def shipped(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A wave of two items, the second one in a folder of its own, whose test looks at a file
    outside of the repository as well."""
    made = Project(tmp_path_factory.mktemp("wave"), template)
    outside = made.home / "outside"
    outside.write_text("")
    test = ["sh", "-c", f"test -e {outside} && test -e b.txt"]
    below = item("b", workDir="sub", testCmd=test)
    done = made.loop("--manifest", made.manifest(item("a"), below, wave_id="w1"))
    assert done.code == 0, done.err
    return made


def reproduce(project: Project, *words: str | Path, code: int = 0) -> Ran:
    done = call(main, *words, "--repo", project.top, "--config", project.config)
    assert done.code == code, done.err
    return done


def told(project: Project, *words: str | Path, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reproduce(project, *words, "--json", code=code).out)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["a", "A", "b"])
def test_a_shipped_commit_is_as_green_as_it_was(shipped: Project, name: str) -> None:
    found = told(shipped, "w1", name, "--state-dir", shipped.state)
    assert (found["same"], found["differences"]) == (True, [])
    assert found["then"]["tree"] == found["now"]["tree"] == found["tree"]
    assert found["then"]["outputDigest"] == found["now"]["outputDigest"]
    assert found["now"]["workDir"] == ("sub" if name == "b" else ".")


@pytest.mark.more
def test_without_an_item_all_that_shipped_is_proven(shipped: Project) -> None:
    for wave in ("w1", "w", "newest"):
        found = told(shipped, wave, "--state-dir", shipped.state)
        assert (found["wave"], found["same"], len(found["items"])) == ("w1", True, 2)
    assert told(shipped, "newest", "a", "--state-dir", shipped.state)["same"] is True
    assert reproduce(shipped, "w", "--state-dir", shipped.state).out.count("the same as") == 2
    for words in (("x",), ("newest", "x")):
        reproduce(shipped, *words, "--state-dir", shipped.state, code=2)


@pytest.mark.more
def test_the_beginning_of_a_waves_id_is_enough(shipped: Project) -> None:
    assert told(shipped, "w", "a", "--state-dir", shipped.state)["same"] is True


@pytest.mark.more
def test_a_beginning_that_two_waves_share_is_told_with_both(shipped: Project) -> None:
    trailers = "\n".join(f"{name}: x" for name in ("Item-Slug", "Item-Id", "Test-Command"))
    tree = shipped.git("rev-parse", "HEAD^{tree}").strip()
    message = f"other\n\nWave-Id: w2\n{trailers}\nProved-Tree: {tree}\n"
    other = shipped.git("commit-tree", tree, "-m", message).strip()
    shipped.git("update-ref", "refs/heads/other", other)
    try:
        assert "w1, w2" in reproduce(shipped, "w", "a", code=2).err
        assert told(shipped, "w1", "a", "--state-dir", shipped.state)["same"] is True
    finally:
        shipped.git("update-ref", "-d", "refs/heads/other")


@pytest.mark.more
@pytest.mark.parametrize("name", ["a", "b"])
def test_without_the_state_folder_the_commit_says_enough(
    shipped: Project, tmp_path: Path, name: str
) -> None:
    found = told(shipped, "w1", name, "--state-dir", tmp_path / "none")
    assert (found["same"], found["then"]) == (True, None)


def test_what_is_red_now_is_different(shipped: Project) -> None:
    outside = shipped.home / "outside"
    outside.unlink()
    try:
        done = reproduce(shipped, "w1", "b", "--state-dir", shipped.state, code=1)
    finally:
        outside.write_text("")
    assert "was green (exit 0), but now is red (exit 1)" in done.out


@pytest.mark.more
def test_a_wave_that_copied_folders_is_told_apart_from_its_missing_config(
    template: Path, tmp_path: Path
) -> None:
    made = Project(tmp_path, template)
    code = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n"
    code += "        open('data/x').close(); open('a.txt').close()\n"
    (made.top / "test_data.py").write_text(code, encoding="utf-8")
    made.git("add", "test_data.py")
    made.git("commit", "-q", "-m", "a test")
    (made.top / ".git" / "info" / "exclude").write_text("data/\n", encoding="utf-8")
    (made.top / "data").mkdir()
    (made.top / "data" / "x").touch()
    made.configure('copy = ["data"]\n')
    command = [sys.executable, "-m", "unittest", "test_data"]
    done = made.loop("--manifest", made.manifest(item("a", testCmd=command), wave_id="w3"))
    assert done.code == 0, done.err
    assert told(made, "w3", "a", "--state-dir", made.state)["same"] is True
    made.configure()
    told_so = reproduce(made, "w3", "a", "--state-dir", made.state, code=1).out
    assert "no [workspace] setup and no copy is set here" in told_so
    assert "--config" in told_so
    assert "counted 1 test of unittest, 0 failed" in told_so
    assert "but now 1 test of unittest, 1 failed" in told_so
    assert "Counts(" not in told_so


def test_a_commit_whose_tree_is_not_the_proven_one_is_different(
    shipped: Project, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(shipped.top, copy, symlinks=True)
    (branch,) = shipped.branches()
    message = shipped.git("show", "-s", "--format=%B", branch)
    forged = Project.__new__(Project)
    forged.__dict__.update({**vars(shipped), "top": copy})
    tree = forged.git("rev-parse", "main^{tree}").strip()
    commit = forged.git("commit-tree", tree, "-p", "main", "-m", message).strip()
    for name in forged.branches():
        forged.git("update-ref", f"refs/heads/{name}", commit)
    slug = message.split("Item-Slug: ")[1].split()[0]
    found = told(forged, "w1", slug, "--state-dir", shipped.state, code=1)
    assert "was proven" in found["differences"][0]


@pytest.mark.more
def test_what_cannot_be_run_here_says_so(shipped: Project, tmp_path: Path) -> None:
    config = tmp_path / "broken.toml"
    config.write_text('[workspace]\nsetup = ["exit 3"]\n')
    done = call(
        main, "w1", "a", "--repo", shipped.top, "--config", config, "--state-dir", shipped.state
    )
    assert (done.code, done.out) == (4, "")
    assert "set-up" in done.err


@pytest.mark.more
@pytest.mark.parametrize("words", [("w1", "c"), ("w2", "a"), ("", "a")])
def test_what_was_never_shipped_is_no_commit(shipped: Project, words: tuple[str, str]) -> None:
    done = reproduce(shipped, *words, "--state-dir", shipped.state, code=2)
    assert "no commit here" in done.err


@pytest.mark.more
def test_a_wave_that_is_none_is_told_with_those_that_are(shipped: Project) -> None:
    done = reproduce(shipped, "nothing", "--state-dir", shipped.state, code=2)
    assert "begin with 'nothing'; the newest: w1" in done.err


@pytest.mark.more
def test_nothing_stays_behind_and_nothing_is_changed(
    shipped: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    before = tree_hash(shipped.top), tree_hash(shipped.state)
    reproduce(shipped, "w1", "a", "--state-dir", shipped.state)
    assert (tree_hash(shipped.top), tree_hash(shipped.state)) == before
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.more
def test_it_runs_as_a_program(shipped: Project) -> None:
    program = ROOT / "tools" / "reproduce.py"
    done = run(
        program, "w1", "a", "--repo", shipped.top, "--state-dir", shipped.state, cwd=shipped.home
    )
    assert (done.code, len(done.out.splitlines())) == (0, 2), done.err
    assert says_good("a.txt")[-1][:10] in done.out
