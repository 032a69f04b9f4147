"""Large folders are removed in the background, and what is left of them by the next run and gc."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.preparation.removal import SUFFIX, Removal, finish_removals, remove_after_the_run
from tests.support.processes import eventually
from tests.support.waves import Scene, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="rm")

Remove = Callable[[Path], object]


def locked(folder: Path) -> Path:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "x").write_text("x")
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)
    return folder


@pytest.mark.parametrize("name", ["plain", "-rf", "a b\n'c", "*"])
def test_a_folder_leaves_its_place_at_once_and_is_gone_soon(tmp_path: Path, name: str) -> None:
    beside = tmp_path / "beside"
    beside.write_text("kept\n")
    place, waiting = locked(tmp_path / name), tmp_path / "waiting"
    Removal(waiting, dict(os.environ)).remove(place)
    assert not place.exists()
    assert eventually(lambda: list(waiting.iterdir()) == [])
    remove_after_the_run(locked(tmp_path / name), dict(os.environ))
    assert eventually(lambda: {*tmp_path.iterdir()} == {beside, waiting})


def test_many_folders_do_not_wait_forever(tmp_path: Path) -> None:
    removal = Removal(tmp_path / "waiting", dict(os.environ))
    for number in range(30):
        removal.remove(locked(tmp_path / str(number)))
    assert eventually(lambda: list((tmp_path / "waiting").iterdir()) == [])


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "file").write_text("kept\n")
    os.link(users / "file", tmp_path / "second")
    (tmp_path / "second").chmod(0o400)
    place = tmp_path / "place"
    place.mkdir()
    (place / "link").symlink_to(users)
    os.link(users / "file", place / "second")
    (tmp_path / "to").symlink_to(users)
    removal = Removal(tmp_path / "waiting", dict(os.environ))
    for path in (place, tmp_path / "to", tmp_path / "gone"):
        removal.remove(path)
    assert eventually(lambda: list((tmp_path / "waiting").iterdir()) == [])
    assert not (tmp_path / "to").is_symlink()
    assert (users / "file").read_text() == "kept\n"
    assert (users / "file").stat().st_mode & 0o777 == 0o400


def test_the_next_run_finishes_what_an_ended_one_left(tmp_path: Path) -> None:
    left = [locked(tmp_path / f"w1-{number}{SUFFIX}") for number in range(3)]
    (tmp_path / "users").mkdir()
    (tmp_path / f"link{SUFFIX}").symlink_to(tmp_path / "users")
    finish_removals(tmp_path, dict(os.environ))
    assert eventually(lambda: not any(folder.exists() for folder in left))
    assert (tmp_path / "users").is_dir()
    assert (tmp_path / f"link{SUFFIX}").is_symlink()


@pytest.mark.more
def test_the_report_does_not_wait_for_large_folders(tmp_path: Path) -> None:
    config = f"[workspace]\ncopy = ['deps']\nroot = '{tmp_path / 'work'}'\n"
    scene = Scene(tmp_path, {".gitignore": "deps/\n", "base.txt": "base\n"}, config=config)
    for number in range(3100):
        path = scene.repo.path / "deps" / str(number % 10) / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    left = locked(tmp_path / "work" / f"w0-1{SUFFIX}")
    tasks = [item("a", "a.txt", "test -e deps/7/7", requireAdversarialReview=False)]
    report, _ = scene.play({"a": writes(a__txt="done\n")}, tasks)
    assert report["shipped"] == ["a"], report
    assert all(path.name.endswith(SUFFIX) for path in (tmp_path / "work").iterdir())
    assert eventually(lambda: list((tmp_path / "work").iterdir()) == [], within_s=30.0)
    assert not left.exists()
