"""The caches of compilers that a wave keeps: filled by the base alone, and copied for each run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from driver.homes.compiled import GO, CachesOfTest, CompilerCaches

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="closed walls are Linux's")
TEST = ("tree", ".", "go test ./...")


@pytest.fixture
def caches(tmp_path: Path) -> CompilerCaches:
    (tmp_path / "kept").mkdir()
    return CompilerCaches(tmp_path / "kept")


def home_with(tmp_path: Path, name: str, **objects: str) -> Path:
    home = tmp_path / name
    (home / ".cache").mkdir(parents=True)
    for one, text in objects.items():
        (home / GO).mkdir(exist_ok=True)
        (home / GO / one).write_text(text, encoding="ascii")
    return home


def on_base(caches: CompilerCaches) -> CachesOfTest:
    return caches.of(TEST, on_base=True)


def lent(caches: CompilerCaches, tmp_path: Path, test: tuple[str, ...] = TEST) -> dict[str, str]:
    """The cache that a run of a test finds."""
    home = home_with(tmp_path, f"home-of-{len(list(tmp_path.iterdir()))}")
    caches.of(test, on_base=False).lend(home)
    cache = home / GO
    found = {one.name: one.read_text(encoding="ascii") for one in cache.glob("*")}
    for one in cache.glob("*"):
        one.write_text("changed", encoding="ascii")
    return found


def test_later_runs_of_a_test_have_copies_of_what_the_base_compiled(
    caches: CompilerCaches, tmp_path: Path
) -> None:
    on_base(caches).keep(home_with(tmp_path, "base", std="compiled"))
    for _ in range(2):
        found = lent(caches, tmp_path)
        assert found.pop("testexpire.txt").strip().isdigit()  # no result of a test is reused
        assert found == {"std": "compiled"}
    assert lent(caches, tmp_path, ("tree", ".", "go test ./other")) == {}


def test_nothing_of_an_item_is_kept_nor_of_a_second_run(
    caches: CompilerCaches, tmp_path: Path
) -> None:
    caches.of(TEST, on_base=False).keep(home_with(tmp_path, "item", std="poisoned"))
    assert lent(caches, tmp_path) == {}
    on_base(caches).keep(home_with(tmp_path, "base", std="first"))
    on_base(caches).keep(home_with(tmp_path, "again", std="second"))
    assert lent(caches, tmp_path)["std"] == "first"


@pytest.mark.parametrize("linked", [".cache", GO])
def test_the_users_own_cache_is_neither_taken_nor_written(
    caches: CompilerCaches, tmp_path: Path, linked: str
) -> None:
    user = home_with(tmp_path, "user", std="mine")
    home = tmp_path / "linked"
    (home / linked).parent.mkdir(parents=True)
    (home / linked).symlink_to(user / linked)
    on_base(caches).keep(home)
    assert lent(caches, tmp_path) == {}
    on_base(caches).keep(home_with(tmp_path, "base", other="compiled"))
    on_base(caches).lend(home)
    assert [one.name for one in (user / GO).iterdir()] == ["std"]


def test_a_link_in_a_kept_cache_leads_no_write_out_of_the_home(
    caches: CompilerCaches, tmp_path: Path
) -> None:
    base, outside = home_with(tmp_path, "base", std="compiled"), tmp_path / "outside"
    (base / GO / "testexpire.txt").symlink_to(outside)
    on_base(caches).keep(base)
    on_base(caches).lend(home_with(tmp_path, "home"))
    assert not outside.exists()


def test_a_wave_keeps_no_cache_over_its_limit(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    small = CompilerCaches(tmp_path / "kept", most_files=1)
    on_base(small).keep(home_with(tmp_path, "base", a="", b=""))
    assert lent(small, tmp_path) == {}
    on_base(small).keep(home_with(tmp_path, "less", a=""))
    assert lent(small, tmp_path).keys() == {"a", "testexpire.txt"}
    other = small.of(("other",), on_base=True)
    other.keep(home_with(tmp_path, "more", a=""))
    assert not other.folder.exists()
