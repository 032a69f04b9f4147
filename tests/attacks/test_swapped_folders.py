"""A link in a place that agents and tests can write leads no write of Tidegate out of it.

Each case lays the link, before the write, where the file or a folder above it should be.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from driver.backend_api.driver import CommandResult, WorkerRequest
from driver.backends.command import CommandDriver
from driver.backends.recorded import RecordedFile
from driver.backends.replay import apply_files
from driver.domain.results import MODE_FILE, MODE_LINK
from driver.filesystem.open_folders import FoldersBelow, NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain, make_folder, move_plain
from driver.filesystem.safe_file_access import append_plain, link_plain, replace_plain
from driver.git.private_git import PrivateGit, open_repository
from driver.homes.login import LoginFile
from driver.homes.private_home import HomeRecipe
from driver.preparation.kept_copies import KeptCopies
from driver.verification.test_run import counted_run
from driver.workspace.agent_clone import put_back_head
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation, SetupCommand
from state_store.documents.errors import TidegateError
from state_store.tracker.base import digest_of
from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights there")
OWN = "the user's own\n"
NAMES = ("file", "HEAD", "exclude", "main", "auth.json", "prompt.txt", "exchange.jsonl")
Write = Callable[[Path, str], object]


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """A folder of the user, of which nothing may change."""
    folder = tmp_path / "decoy"
    (folder / "below").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text(OWN)
        (folder / "below" / name).write_text(OWN)
    return folder


def assert_untouched(decoy: Path) -> None:
    found = {str(path.relative_to(decoy)) for path in decoy.rglob("*")}
    assert found == {*NAMES, "below", *(f"below/{name}" for name in NAMES)}
    assert {path.read_text() for path in decoy.rglob("*") if path.is_file()} == {OWN}


def one_sentence(error: BaseException) -> bool:
    return bool(str(error)) and "\n" not in str(error)


def source(root: Path, path: str) -> Path:
    """A folder of ours, with a file and a folder at `path`."""
    ours = root.parent / "ours"
    (ours / path).mkdir(parents=True, exist_ok=True)
    (ours / path / "inner").write_text("ours")
    (ours / path).with_name("plain").write_text("ours")
    return ours


def restored(root: Path, path: str) -> None:
    ours = source(root, path)
    assert KeptCopies(ours, ("a",), {}, root.parent / "spare").restore(path, root)


def copied(root: Path, path: str) -> None:
    ours = source(root, path)
    plain = f"{path.rpartition('/')[0]}/plain"
    copy_plain(Below(ours, plain), Below(root, path))


def moved(root: Path, path: str) -> None:
    move_plain(Below(source(root, path), path), Below(root, path))


def lent(root: Path, path: str) -> None:
    """What a compiler made is lent to a home that has a link."""
    ours = source(root, path)
    copy_plain(Below(ours, path), Below(root, path))


WRITES: Mapping[str, Write] = {
    "a copy that is mended": restored,
    "a copy of a file": copied,
    "a copy of a folder": lent,
    "a folder that is moved": moved,
    "a folder that is made": lambda root, path: make_folder(Below(root, path), 0o777),
    "replace": lambda root, path: replace_plain(root, path, b"ours"),
    "append": lambda root, path: append_plain(root, path, b"ours"),
    "link": lambda root, path: link_plain(root, path, "/nowhere"),
    "replay": lambda root, path: apply_files(root, (RecordedFile(path, MODE_FILE, b"ours"),)),
    "replay a link": lambda root, path: apply_files(root, (RecordedFile(path, MODE_LINK, b"x"),)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", list(WRITES))
@pytest.mark.parametrize("swapped", ["a", "a/b"])
def test_a_swapped_folder_stops_the_write(
    way: str, swapped: str, tmp_path: Path, decoy: Path
) -> None:
    root = tmp_path / "root"
    (root / swapped).parent.mkdir(parents=True)
    (root / swapped).symlink_to(decoy)
    with pytest.raises(Exception) as stopped:  # noqa: PT011 - the replay has a class of its own
        WRITES[way](root, f"{swapped}/file")
    with pytest.raises(Exception):  # noqa: PT011, B017
        WRITES[way](root, f"{swapped}/below/new")
    assert one_sentence(stopped.value)
    assert "is a link" in str(stopped.value)
    assert_untouched(decoy)


def test_a_link_in_place_of_the_file_is_replaced_or_refused(tmp_path: Path, decoy: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("replaced", "appended", "linked", "replayed"):
        (root / name).symlink_to(decoy / "file")
    replace_plain(root, "replaced", b"ours")
    apply_files(root, (RecordedFile("replayed", MODE_FILE, b"ours"),))
    with pytest.raises(NotPlainError, match="is a link"):
        append_plain(root, "appended", b"ours")
    with pytest.raises(FileExistsError):
        link_plain(root, "linked", "/nowhere")
    assert (root / "replaced").read_bytes() == (root / "replayed").read_bytes() == b"ours"
    assert not (root / "replaced").is_symlink()
    assert_untouched(decoy)


def test_a_copy_is_like_its_source_and_leads_nowhere_else(tmp_path: Path, decoy: Path) -> None:
    old = tmp_path / "old"
    (old / "deep" / "er").mkdir(parents=True)
    (old / "deep" / "er" / "program").write_text("#!")
    (old / "deep" / "er" / "program").chmod(0o751)
    (old / "deep" / "link").symlink_to(decoy / "file")
    (old / "deep" / "folder").symlink_to(decoy)
    os.mkfifo(old / "deep" / "pipe")
    (old / "deep").chmod(0o711)
    for path in (old / "deep" / "er" / "program", old / "deep"):
        os.utime(path, ns=(10**18, 10**18 + 7))
    copy_plain(Below(tmp_path, "old"), Below(tmp_path, "new/place"))
    names = ("deep", "deep/er", "deep/er/program", "deep/link", "deep/folder")
    new = tmp_path / "new" / "place"
    assert {str(one.relative_to(new)) for one in new.rglob("*")} == {*names}
    for name in names:
        one, other = (old / name).lstat(), (new / name).lstat()
        assert (one.st_mode, one.st_mtime_ns) == (other.st_mode, other.st_mtime_ns), name
    assert (new / "deep" / "link").readlink() == decoy / "file"
    with pytest.raises(FileExistsError):
        copy_plain(Below(tmp_path, "old/deep/er"), Below(tmp_path, "new/place"))
    with pytest.raises(NotPlainError):
        move_plain(Below(new, "deep/folder"), Below(tmp_path, "moved"))
    assert_untouched(decoy)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("replaced", "appended", "tracker"):
        os.mkfifo(tmp_path / name)
    assert digest_of(tmp_path / "tracker") is None
    replace_plain(tmp_path, "replaced", b"ours")
    with pytest.raises(NotPlainError, match="no regular file"):
        append_plain(tmp_path, "appended", b"ours")


def test_a_new_file_looks_like_another(tmp_path: Path) -> None:
    like = tmp_path / "like"
    like.write_text("x")
    like.chmod(0o750)
    os.utime(like, ns=(10**18, 10**18 + 5 * 10**9))
    replace_plain(tmp_path, "new/file", b"ours", like=like.stat())
    seen = (tmp_path / "new" / "file").stat()
    assert (seen.st_mode, seen.st_mtime_ns) == (like.stat().st_mode, like.stat().st_mtime_ns)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("swapped", ["the file", "the folder"])
def test_an_agent_cannot_have_the_next_prompt_written_elsewhere(
    swapped: str, tmp_path: Path, decoy: Path
) -> None:
    scratch = tmp_path / "scratch"
    if swapped == "the folder":
        scratch.symlink_to(decoy)
    else:
        scratch.mkdir()
        (scratch / "prompt.txt").symlink_to(decoy / "prompt.txt")
    driver = CommandDriver([sys.executable, "-c", "pass", "{prompt_file}"])
    work = tmp_path / "work"
    work.mkdir()
    request = WorkerRequest("PROMPT", (), str(work), scratch=scratch)
    if swapped == "the file":
        driver.dispatch_worker(request)
        assert (scratch / "prompt.txt").read_text() == "PROMPT"
    else:
        with pytest.raises(NotPlainError, match="scratch is a link") as stopped:
            driver.dispatch_worker(request)
        assert one_sentence(stopped.value)
    assert_untouched(decoy)


def test_the_head_of_a_clone_is_not_written_through_links(tmp_path: Path, decoy: Path) -> None:
    clone = tmp_path / "clone"
    (clone / ".git" / "refs").mkdir(parents=True)
    (clone / ".git" / "refs" / "heads").symlink_to(decoy)
    (clone / ".git" / "HEAD").symlink_to(decoy / "HEAD")
    with pytest.raises(NotPlainError) as stopped:
        put_back_head(clone, "a" * 40, "main")
    assert one_sentence(stopped.value)
    put_back_head(clone, "a" * 40, None)
    assert_untouched(decoy)


def test_a_set_up_does_not_get_the_login_of_the_agent(tmp_path: Path, decoy: Path) -> None:
    """In the home that it prepared, all that the tests can read, a folder is a link."""
    prepared, home, login = tmp_path / "prepared", tmp_path / "home", tmp_path / "login.json"
    for folder in (prepared, home):
        folder.mkdir()
    login.write_text("a secret")
    for name in (".codex", ".config"):
        (prepared / name).symlink_to(decoy)
    (prepared / ".claude").mkdir()
    files = [".codex/auth.json", ".config/x/auth.json", ".claude/auth.json"]
    lent = [LoginFile(name, login) for name in files]
    HomeRecipe(tmp_path, prepared=prepared, login=tuple(lent)).furnish(home, {})
    assert_untouched(decoy)
    assert not any((prepared / ".claude").iterdir())
    assert {(home / name).read_text() for name in files} == {"a secret"}


def test_no_login_is_written_through_a_link_that_a_home_has(tmp_path: Path, decoy: Path) -> None:
    home, login = tmp_path / "home", tmp_path / "login.json"
    home.mkdir()
    login.write_text("a secret")
    (home / ".codex").symlink_to(decoy)
    HomeRecipe(tmp_path, login=(LoginFile(".codex/auth.json", login),)).furnish(home, {})
    assert_untouched(decoy)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("swapped", ["info", "index"])
def test_a_set_up_cannot_have_git_files_written_elsewhere(
    swapped: str, tmp_path: Path, decoy: Path
) -> None:
    environ = user_environ(tmp_path / "home")
    user = make_repo(tmp_path / "repo", environ, {"a.txt": "a\n"})
    (user.path / "a.txt").write_text("b\n")

    def swap(_: SetupCommand, top: Path, __: Mapping[str, str]) -> str:
        (top / ".git" / swapped).rename(top / "away")
        (top / ".git" / swapped).symlink_to(decoy if swapped == "info" else decoy / "file")
        return ""

    repo = open_repository(user.path, environ)
    git = PrivateGit.create(tmp_path / "private", repo, environ)
    prepare = Preparation(setup=("x",), run=swap)
    context = CloneContext(tmp_path / "root", git, repo, prepare)
    try:
        with suppress(TidegateError):
            context.workspace("x")
    finally:
        context.close()
    assert_untouched(decoy)


def test_an_output_that_became_a_link_is_not_rewritten(tmp_path: Path) -> None:
    decoy, output, whole = tmp_path / "decoy", tmp_path / "output", [""]
    (tmp_path / "test_x.py").write_text("")

    def once(_: object, environment: Mapping[str, str]) -> CommandResult:
        asked = shlex.split(environment.get("PYTEST_ADDOPTS", ""))
        path = next((one.partition("=")[2] for one in asked if "xml=" in one), "")
        whole[0] = f"---- generated xml file: {path} ----\nmy own\n"
        decoy.write_text(whole[0])
        (tmp_path / "output.out").symlink_to(decoy)
        return CommandResult(0, whole[0], output_file=str(tmp_path / "output.out"))

    result, _ = counted_run("python -m pytest -q", tmp_path, {}, output, once)
    assert result.stdout == "my own\n"
    assert decoy.read_text() == whole[0]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted there")
def test_folders_opened_one_after_the_other_follow_no_link_and_do_not_stay_open(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to("../elsewhere")

    def still_open() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all that is wanted

    before = still_open()
    with FoldersBelow(tmp_path / "top") as folders:
        for number in range(40):
            folders.at((str(number), "in")).link("made", "target")
            with pytest.raises(NotPlainError):
                folders.at((str(number), "in", "made", "x"))
            with pytest.raises(NotPlainError):
                folders.at(("link", "x"))
        folders.at(()).link("last", "target")
        assert still_open() <= before + 3
    assert still_open() == before
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    made = [tmp_path / "top" / str(number) / "in" / "made" for number in range(40)]
    assert all(path.is_symlink() for path in made)
    assert (tmp_path / "top" / "last").is_symlink()
