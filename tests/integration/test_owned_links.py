"""Owned names against real symbolic links."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.domain.ownership import leaves_tree, linked_path, parse_owned


@pytest.fixture(autouse=True)
def _links(tmp_path: Path) -> None:
    try:
        (tmp_path / "probe").symlink_to("x")
    except OSError as fault:
        pytest.skip(f"links cannot be made here: {fault}")


def test_a_link_that_leads_out_of_the_tree_is_found(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "real").mkdir(parents=True)
    (top / ".git").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (top / "out").symlink_to("../elsewhere")
    (top / "in").symlink_to("real")
    (top / "dangling").symlink_to("../not-there")
    (top / "absolute").symlink_to("/")
    (top / "loop").symlink_to("loop")
    (top / "hooks").symlink_to(".git")
    (top / "real" / "up").symlink_to("../../elsewhere")
    leaving = ["out", "out/x.txt", "dangling", "absolute/x", "loop/x", "hooks/x", "in/up/x"]
    assert [path for path in leaving if not leaves_tree(top, path)] == []
    staying = ["a", "real/a", "in/a", "not/yet/there", "in"]
    assert [path for path in staying if leaves_tree(top, path)] == []


def test_a_tree_reached_through_a_link_is_still_the_tree(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "alias").symlink_to("top")
    assert not leaves_tree(tmp_path / "alias", "a/b")


def test_the_real_path_of_a_name_behind_a_link_is_known(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("src")
    (tmp_path / "src" / "near").symlink_to("deep")
    (tmp_path / "src" / "file.py").symlink_to("deep/file.py")
    (tmp_path / "src" / "deep" / "file.py").touch()
    (tmp_path / "src" / "broken.py").symlink_to("deep/gone.py")
    for entry, real in {
        "alias/core.py": "src/core.py",
        "alias/new/core.py": "src/new/core.py",
        "alias/near/core.py": "src/deep/core.py",
        "alias/": "src",
        "alias": "src",
        "alias/file.py": "src/deep/file.py",
        "src/file.py": "src/deep/file.py",
        "src/broken.py": None,
        "src/core.py": None,
        "core.py": None,
    }.items():
        assert linked_path(tmp_path, parse_owned(entry)) == real, entry
