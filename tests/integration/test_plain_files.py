"""Files of a workspace, read and written through no link, all of them or none."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.backends.http.owned_files import show_owned
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import (
    MAX_LISTED,
    list_plain,
    read_plain,
    regular_bytes,
    write_plain,
)
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import BadFileError, read_bytes

needs_links = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("outside", encoding="utf-8")
    return outside


def everything(root: Path) -> dict[str, bytes]:
    found = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def test_files_are_replaced_and_made_with_the_folders_they_need(root: Path) -> None:
    (root / "old.txt").write_bytes(b"old")
    write_plain(root, {"old.txt": b"new\r\n", "a/b/c.txt": b"deep", "a/d.txt": b""})
    assert everything(root) == {"old.txt": b"new\r\n", "a/b/c.txt": b"deep", "a/d.txt": b""}


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
@pytest.mark.skipif(os.name == "nt", reason="no such limit")
def test_an_answer_may_be_of_more_files_than_may_be_open(root: Path) -> None:
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = {f"d/{n % 7}/{n}.txt": b"new" for n in range(150)}
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(100, hard), hard))
    try:
        write_plain(root, files)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert everything(root) == files


def test_a_program_stays_one_and_a_new_file_obeys_the_umask(root: Path) -> None:
    (root / "run.sh").write_bytes(b"old")
    (root / "run.sh").chmod(0o755)
    write_plain(root, {"run.sh": b"new", "plain.txt": b"x"})
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((root / "plain.txt").stat().st_mode) == 0o666 & ~umask


def test_what_another_name_shares_is_not_written_through(root: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", root / "a.txt")
    write_plain(root, {"a.txt": b"mine"})
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "outside"


def linked_file(root: Path, outside: Path) -> str:
    (root / "a.txt").symlink_to(outside / "secret.txt")
    return "a.txt"


def linked_inside(root: Path, outside: Path) -> str:
    (root / "b.txt").write_bytes(b"kept")
    (root / "a.txt").symlink_to("b.txt")
    return "a.txt"


def dangling(root: Path, outside: Path) -> str:
    (root / "a.txt").symlink_to(outside / "absent.txt")
    return "a.txt"


def linked_folder(root: Path, outside: Path) -> str:
    (root / "d").symlink_to(outside)
    return "d/secret.txt"


def linked_folder_new_file(root: Path, outside: Path) -> str:
    (root / "d").symlink_to(outside)
    return "d/e/new.txt"


def a_pipe(root: Path, outside: Path) -> str:
    os.mkfifo(root / "a.txt")
    return "a.txt"


def a_folder(root: Path, outside: Path) -> str:
    (root / "a.txt").mkdir()
    return "a.txt"


def below_a_file(root: Path, outside: Path) -> str:
    (root / "a.txt").write_bytes(b"file")
    return "a.txt/b.txt"


IN_THE_WAY: list[Callable[[Path, Path], str]] = [
    linked_file,
    linked_inside,
    dangling,
    linked_folder,
    linked_folder_new_file,
    a_pipe,
    a_folder,
    below_a_file,
]


@needs_links
@pytest.mark.parametrize("build", IN_THE_WAY)
def test_what_is_no_file_is_neither_written_nor_read(
    build: Callable[[Path, Path], str], root: Path, outside: Path
) -> None:
    path = build(root, outside)
    before = everything(root) if build is not a_pipe else None
    with pytest.raises(NotPlainError):
        write_plain(root, {"first.txt": b"x", path: b"bad"})
    with pytest.raises(NotPlainError):
        read_plain(root, path, 100)
    assert everything(outside) == {"secret.txt": b"outside"}
    assert not (root / "first.txt").exists()
    assert before is None or everything(root) == before


@needs_links
@pytest.mark.parametrize("path", ["d/new.txt", "d/secret.txt"])
@pytest.mark.parametrize("look", [1, 2])
def test_a_folder_that_becomes_a_link_after_the_look_leads_nowhere(
    look: int, path: str, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "d").mkdir()
    true_open, opened = os.open, []

    def swaps(name: str, *args: int, **options: int) -> int:
        opened.append(name)
        if name == "d" and opened.count("d") == look:
            (root / "d").rmdir()
            (root / "d").symlink_to(outside)
        return true_open(name, *args, **options)

    monkeypatch.setattr(os, "open", swaps)
    with pytest.raises((NotPlainError, OSError)):
        write_plain(root, {path: b"bad"})
    assert (root / "d").is_symlink()
    assert everything(outside) == {"secret.txt": b"outside"}


def test_a_write_that_fails_late_leaves_everything_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_bytes(b"old a")
    (root / "b.txt").write_bytes(b"old b")
    true_replace, calls = os.replace, [0]

    def fails_at(number: int) -> Callable[..., None]:
        def replace(*args: object, **kwargs: object) -> None:
            calls[0] += 1
            if calls[0] == number:
                raise OSError(28, "No space left on device")
            true_replace(*args, **kwargs)  # type: ignore[arg-type]

        return replace

    for number in range(1, 6):
        calls[0] = 0
        monkeypatch.setattr(os, "replace", fails_at(number))
        with pytest.raises(OSError, match="No space"):
            write_plain(root, {"a.txt": b"new", "n/c.txt": b"new", "b.txt": b"new"})
        monkeypatch.undo()
        assert everything(root) == {"a.txt": b"old a", "b.txt": b"old b"}
        assert not (root / "n").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a limit on file sizes")
def test_a_full_disk_leaves_no_draft_behind(root: Path) -> None:
    import resource  # noqa: PLC0415 - not on every platform
    import signal  # noqa: PLC0415

    (root / "a.txt").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="large"):
            write_plain(root, {"a.txt": b"new", "b/c.txt": b"x" * 10_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert everything(root) == {"a.txt": b"old"}
    assert not (root / "b").exists()


def test_a_file_below_another_of_the_same_patch_is_an_error_of_the_patch(root: Path) -> None:
    with pytest.raises((OSError, NotPlainError)):
        write_plain(root, {"a": b"x", "a/b": b"y"})
    assert everything(root) == {}


def test_a_file_is_read_up_to_its_limit(root: Path) -> None:
    (root / "a.txt").write_bytes(b"12345")
    assert read_plain(root, "a.txt", 5) == b"12345"
    with pytest.raises(NotPlainError, match="5 bytes"):
        read_plain(root, "a.txt", 4)
    assert read_plain(root, "absent/b.txt", 4) is None
    assert read_plain(root, "absent.txt", 4) is None


@needs_links
def test_a_folders_files_are_listed_without_links_and_git(root: Path, outside: Path) -> None:
    for name in ("d/b.txt", "d/e/a.txt", "d/.git/config", "d/e/.git/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "d/link").symlink_to(outside)
    (root / "d/link.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(root / "d/pipe")
    assert list_plain(root, "d") == ("d/b.txt", "d/e/a.txt")
    assert list_plain(root, "absent") == ()


def test_a_folder_of_too_many_entries_is_told(root: Path) -> None:
    (root / "d").mkdir()
    for number in range(MAX_LISTED + 1):
        (root / f"d/{number}").touch()
    with pytest.raises(NotPlainError, match="list fewer files"):
        list_plain(root, "d")


def records(root: Path, *names: str, budget: int = 1000) -> list[dict[str, object]]:
    return [json.loads(line) for line in show_owned(root, names, budget).lines]


def test_owned_files_are_shown_and_those_that_are_not_there_are_new(root: Path) -> None:
    (root / "a.txt").write_bytes(b"a\r\n\xc3\xa9")
    assert [(r["path"], r["contents"]) for r in records(root, "a.txt", "b/new.txt")] == [
        ("a.txt", "a\r\n\u00e9"),
        ("b/new.txt", None),
    ]


def test_a_backslash_means_the_same_file_as_a_slash(root: Path) -> None:
    (root / "src").mkdir()
    (root / "src/a.py").write_bytes(b"x")
    shown = show_owned(root, ("src\\a.py", "./src/a.py"), 1000)
    assert [json.loads(line)["path"] for line in shown.lines] == ["src/a.py"]


def test_the_budget_counts_what_json_makes_of_the_files(root: Path) -> None:
    (root / "a.txt").write_bytes(b'"' * 100)
    assert len(records(root, "a.txt", budget=400)) == 1
    with pytest.raises(CannotRunError, match=r"exceed context budget: \d+ bytes post-escape"):
        show_owned(root, ("a.txt",), 250)


def test_a_folder_is_shown_as_far_as_there_is_room(root: Path) -> None:
    (root / "d").mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (root / "d" / name).write_bytes(b"x" * 200)
    (root / "d/picture.png").write_bytes(b"\x89PNG\xff")
    shown = show_owned(root, ("d/a.txt", "d/"), 700)
    told = [json.loads(line) for line in shown.lines]
    assert [record["path"] for record in told][:1] == ["d/a.txt"]
    assert shown.hidden == {"d/c.txt", "d/picture.png"}
    assert ["left_out" in record for record in told] == [False, False, True, True]


def test_a_file_that_is_no_text_cannot_be_shown(root: Path) -> None:
    (root / "a.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(CannotRunError, match="not UTF-8"):
        show_owned(root, ("a.bin",), 1000)


def test_all_names_that_nobody_can_own_are_told_at_once(root: Path) -> None:
    with pytest.raises(InputError) as caught:
        show_owned(root, ("../x", "/y", "a.txt"), 1000)
    assert len(caught.value.problems) == 2


def test_what_is_no_file_is_never_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        with pytest.raises(BadFileError, match="is not a regular file"):
            read_bytes(root / name)
        with pytest.raises(OSError, match="is not a regular file"):
            regular_bytes(root / name)
    with pytest.raises(FileNotFoundError):
        regular_bytes(root / "missing")
    (root / "large").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="is larger than 10 bytes"):
        regular_bytes(root / "large", 10)
    assert regular_bytes(root / "large", 11) == b"x" * 11
