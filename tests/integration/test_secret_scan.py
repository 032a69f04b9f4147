"""The secret scan as a hook or a job runs it: what it reads, prints and answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.interpreter import PYTHON
from tests.support.repos import Checkout, make_repo, user_environ
from tests.support.secrets import aws_key, github
from tools import secret_scan
from tools.secret_scan import GitScanError, ScanError

SCAN = Path(__file__).resolve().parents[2] / "tools" / "secret_scan.py"


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    return make_repo(tmp_path / "repo", user_environ(tmp_path / "home"), {"a.txt": "clean\n"})


def scan(repo: Checkout, *args: str) -> tuple[int, str, str]:
    done = warm.run(
        [*PYTHON, str(SCAN), *args],
        cwd=repo.path,
        env=dict(repo.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert github() not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def test_what_is_staged_counts_and_not_the_working_copy(repo: Checkout) -> None:
    repo.write({"a.txt": f"key\n{github()}\n"})
    assert scan(repo, "--staged") == (0, "CLEAN: no secret in 0 contents\n", "")
    repo.git("add", "a.txt")
    repo.write({"a.txt": "clean again\n"})
    code, out, _ = scan(repo, "--staged")
    assert code == 1
    assert out.splitlines() == [
        f"HIGH a.txt:2 github_token ({github()[:4]}*** 40 characters)",
        "FOUND: 1 secret(s)",
    ]
    assert secret_scan.get_staged_files(repo.path) == ["a.txt"]
    assert github() in secret_scan.get_git_blob(repo.path, ":a.txt").decode()


def test_a_range_is_scanned_with_what_a_later_commit_took_away(repo: Checkout) -> None:
    repo.commit({"b.txt": github()}, "oops")
    repo.git("rm", "-q", "b.txt")
    repo.commit({"c.txt": "clean"}, "removed")
    oops = repo.git("rev-parse", "--short", "HEAD~1")
    code, out, _ = scan(repo, "--range", "HEAD~2..HEAD")
    assert code == 1
    assert out.startswith("HIGH b.txt@")
    assert scan(repo, "--range", "HEAD~1..HEAD")[0] == 0
    assert scan(repo, "--range", "HEAD..HEAD")[0] == 0
    assert scan(repo, "--history")[0] == 1
    assert secret_scan.get_range_files(repo.path, "HEAD~2..HEAD") == ["c.txt"]
    contents = [("a.txt", "clean\n"), ("b.txt", github()), ("c.txt", "clean")]
    assert secret_scan.get_history_files(repo.path) == contents
    assert github().encode() == secret_scan.get_git_blob(repo.path, f"{oops}:b.txt")


def test_a_secret_at_the_end_of_a_range_is_told_by_its_path_alone(repo: Checkout) -> None:
    repo.commit({"d/\u00fc x.txt": f"\n\n{aws_key()}"})
    code, out, _ = scan(repo, "--range", "HEAD~1..HEAD")
    assert (code, out.split(" aws_access_key")[0]) == (1, "HIGH d/\u00fc x.txt:3")


def test_history_is_every_branch_and_tag(repo: Checkout) -> None:
    repo.git("checkout", "-q", "-b", "other")
    repo.commit({"b.txt": github()})
    repo.git("tag", "keep")
    repo.git("checkout", "-q", "main")
    repo.git("branch", "-q", "-D", "other")
    assert scan(repo, "--history")[0] == 1
    repo.git("tag", "-d", "keep")
    assert scan(repo, "--history")[0] == 0


def test_a_first_commit_in_the_making_can_be_scanned(tmp_path: Path) -> None:
    made = Checkout(tmp_path, user_environ(tmp_path / "home"))
    made.git("init", "-q")
    made.write({"a.txt": github()})
    made.git("add", "a.txt")
    assert scan(made, "--staged")[0] == 1


def test_the_users_own_diff_settings_hide_nothing(repo: Checkout) -> None:
    repo.write({"x/a.txt": github(), "b.txt": github(), ".gitattributes": "*.txt binary -diff\n"})
    repo.git("add", ".")
    for name, value in (
        ("diff.relative", "true"),
        ("diff.external", "true"),
        ("diff.renames", "copies"),
    ):
        repo.git("config", name, value)
    inside = Checkout(repo.path / "x", repo.environ)
    assert "FOUND: 2 secret(s)" in scan(inside, "--staged")[1]


@pytest.mark.parametrize(
    "args", [(), ("--staged", "--history"), ("--staged", "a.txt"), ("--range", "A..B", "x")]
)
def test_exactly_one_mode_is_asked_for(repo: Checkout, args: tuple[str, ...]) -> None:
    code, out, err = scan(repo, *args)
    assert (code, out) == (2, "")
    assert "exactly one" in err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("commits", ["nope..HEAD", "HEAD", "--all", "..", "HEAD..--all"])
def test_a_range_that_git_does_not_know_is_not_clean(repo: Checkout, commits: str) -> None:
    code, out, err = scan(repo, f"--range={commits}")
    if commits == "..":
        return  # git's word for nothing
    assert (code, out) == (1, "")
    assert err.startswith("secret_scan: FATAL: ")


def test_no_repository_is_not_clean(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {**user_environ(tmp_path / "home"), "GIT_CEILING_DIRECTORIES": "/"})
    for mode, failed in (("--staged", 1), ("--history", 2)):
        code, out, err = scan(place, mode)
        assert (code, out) == (failed, "")
        assert "FATAL" in err
    with pytest.raises(GitScanError):
        secret_scan.get_staged_files(tmp_path)


def test_files_and_folders_are_scanned_and_caches_passed_over(repo: Checkout) -> None:
    repo.write({"sub/a.py": f'k = "{github()}"', "node_modules/x.js": github()})
    code, out, _ = scan(repo, "sub", "a.txt")
    assert code == 1
    assert out.startswith("HIGH sub/a.py:1 github_token")
    assert "FOUND: 1 secret(s)" in scan(repo, ".")[1]
    assert scan(repo, "a.txt") == (0, "CLEAN: no secret in 1 files\n", "")
    path = str(repo.path / "sub")
    ((found, line, rule, match, fatal),) = secret_scan.find_secrets([path])
    assert (found, line, rule, fatal) == (f"{path}/a.py", 1, "github_token", True)
    assert match == github()


def test_what_cannot_be_read_is_no_clean_result(repo: Checkout) -> None:
    os.mkfifo(repo.path / "pipe")
    repo.write({"s.txt": github()})
    for missing in ("nosuch", "pipe"):
        code, out, err = scan(repo, missing, "s.txt")
        assert code == 2
        assert "HIGH s.txt:1" in out
        assert missing in err
        with pytest.raises(ScanError):
            secret_scan.scan_file(repo.path / missing)


def test_a_large_text_is_scanned_to_its_end_and_noted(repo: Checkout) -> None:
    repo.write({"big.txt": "word " * 250_000 + github()})
    code, out, err = scan(repo, "big.txt")
    assert code == 1
    assert err.startswith("SKIPPED-LARGE big.txt: ")
    assert out.startswith("HIGH big.txt:1 github_token")


def test_many_contents_are_read_in_batches_and_nested_repositories_passed_over(
    repo: Checkout,
) -> None:
    repo.write({f"f{n}.txt": f"file {n}\n" for n in range(300)})
    repo.write({"f299.txt": github(), "empty": ""})
    repo.git("add", ".")
    head = repo.git("rev-parse", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},nested")
    code, out, _ = scan(repo, "--staged")
    assert (code, out.count("HIGH")) == (1, 1)
    assert secret_scan.is_binary_file(repo.path / "f1.txt") is False
