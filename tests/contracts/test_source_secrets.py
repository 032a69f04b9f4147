"""`secret_scan` as callers of the original project use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.repos import Checkout, make_repo, user_environ
from tests.support.secrets import github, noise
from tools import secret_scan

PRAGMA = "# secretscan: allow-pattern-docs\n"
PASSWORD = f'password = "{noise(14, 5)}"\n'
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    return make_repo(tmp_path / "repo", user_environ(tmp_path / "home"), {"a.txt": "clean\n"})


def test_the_fourth_field_says_if_a_match_blocks() -> None:
    (found,) = secret_scan.scan_content(PASSWORD)
    assert (found[0], found[1], found[3]) == (1, "generic_secret_assignment", True)
    softened = secret_scan.scan_content(PRAGMA + PASSWORD + github())
    assert [(line, rule, blocks) for line, rule, _, blocks in softened] == [
        (2, "generic_secret_assignment", False),
        (3, "github_token", True),
    ]


def test_the_rules_that_a_pragma_softens_are_named() -> None:
    fatal = {"pem_private_key", "github_token", "credential_filename"}
    assert fatal <= secret_scan.FATAL_RULES
    assert not secret_scan.FATAL_RULES & secret_scan.SOFTENED_BY_PRAGMA


def test_the_files_to_scan_are_paths(repo: Checkout) -> None:
    repo.write({"d/b.py": "", "d/__pycache__/b.pyc": "", "d/old.pyc": ""})
    found = secret_scan.scan_paths([str(repo.path / "d"), str(repo.path / "a.txt")])
    assert found == [repo.path / "d" / "b.py", repo.path / "a.txt"]


def test_ignored_files_are_passed_over_and_named_files_never(repo: Checkout) -> None:
    repo.write({".gitignore": "*.env\nout/\n", "x/local.env": "", "x/out/a": "", "x/b.py": ""})
    repo.write({"x/kept.env": ""})
    repo.git("add", "-f", "x/kept.env")
    folder = repo.path / "x"
    assert secret_scan.scan_paths([folder]) == [folder / "b.py", folder / "kept.env"]
    assert secret_scan.scan_paths([folder / "local.env"]) == [folder / "local.env"]
    assert secret_scan.scan_paths([folder / "out"]) == [folder / "out" / "a"]


def test_a_pragma_is_looked_for_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(PRAGMA)
    assert secret_scan.has_pragma(str(path))
    path.write_text("\n" * 10 + PRAGMA)
    assert not secret_scan.has_pragma(path)
    assert not secret_scan.has_pragma(tmp_path / "none")


def test_paths_may_be_paths() -> None:
    assert secret_scan.should_skip_file(Path("a") / ".git" / "config")
    assert secret_scan.should_skip_file(Path("a.pyc"))
    assert not secret_scan.should_skip_file(Path("a.py"))
    assert secret_scan.is_env_file(Path("a") / ".env")


def test_the_history_is_pairs_for_scan_content(repo: Checkout) -> None:
    repo.commit({"b.txt": github()})
    repo.git("rm", "-q", "b.txt")
    repo.commit({"c.txt": "clean"})
    found = [
        (path, match.rule)
        for path, text in secret_scan.get_history_files(repo.path)
        for match in secret_scan.scan_content(text, path)
    ]
    assert found == [("b.txt", "github_token")]


def test_a_fault_of_git_names_the_reference(repo: Checkout) -> None:
    with pytest.raises(secret_scan.GitScanError, match=r"HEAD:none\.txt"):
        secret_scan.get_git_blob(repo_path=str(repo.path), ref_path="HEAD:none.txt")


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.chdir(folder)
    return secret_scan.main(args)


def test_what_a_pragma_softens_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "a.py").write_text(PRAGMA + PASSWORD)
    assert run(tmp_path, monkeypatch, "a.py") == 0
    allowed, last = capsys.readouterr().out.splitlines()
    assert allowed.startswith("ALLOWED-DOC a.py:2 generic_secret_assignment (")
    assert last.startswith("CLEAN: ")
    assert "1 allowed" in last
    (tmp_path / "a.py").write_text(PRAGMA + PASSWORD + github())
    assert run(tmp_path, monkeypatch, "a.py") == 1
    assert capsys.readouterr().out.endswith("FOUND: 1 secret(s)\n")


def test_the_name_of_a_file_of_keys_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "k.p12").write_bytes(b"\0\1\2")
    assert run(tmp_path, monkeypatch, "k.p12") == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("HIGH k.p12:0 credential_filename (")
    assert shown.err.startswith("SKIPPED-BINARY k.p12")


def test_notes_are_on_stderr_for_callers_of_the_functions_too(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "big.txt").write_text("word " * 250_000)
    assert secret_scan.scan_file(tmp_path / "big.txt") == []
    assert secret_scan.scan_blob("a.bin", b"\0") == []
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split(" ")[0] for line in shown.err.splitlines()] == [
        "SKIPPED-LARGE",
        "SKIPPED-BINARY",
    ]


@pytest.mark.parametrize(("args", "code"), [(["--staged"], 1), (["--history"], 2)])
def test_a_folder_without_git_is_fatal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    args: list[str],
    code: int,
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.fspath(tmp_path.parent))
    assert run(tmp_path, monkeypatch, *args) == code
    assert "FATAL" in capsys.readouterr().err
