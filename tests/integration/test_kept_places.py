"""Whole waves in a repository with so many files that its clones and test checkouts are kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.diagnostics.places import workspaces_of
from driver.git.private_git import open_repository
from driver.maintenance.findings import Scope
from driver.maintenance.reclaim import REMOVED, Step, reclaim
from driver.preparation.kept_places import TREE, KeptPlace, Limits, identity_of, places_in
from tests.support.waves import Scene, item, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="places are kept on Linux only")
MANY = {f"data/{number % 10}/{number}": f"{number}\n" for number in range(510)}


def play(scene: Scene, name: str) -> None:
    made = item(name, f"{name}.txt", f"test -e {name}.txt", requireAdversarialReview=False)
    report, _ = scene.play({name: writes(**{f"{name}__txt": "done\n"})}, [made])
    assert report["shipped"] == [name], report


def kept(work: Path) -> list[KeptPlace]:
    return [place for folder in (work / "places").iterdir() for place in places_in(folder)]


def gc(scene: Scene, work: Path, limits: Limits) -> Iterator[Step]:
    repository = open_repository(scene.repo.path, dict(os.environ))
    state = scene.settings.state_dir
    return reclaim(Scope(state, repository, work, dict(os.environ), 0.0, places=limits))


@pytest.mark.more
def test_a_later_wave_uses_the_places_of_an_earlier_one(tmp_path: Path) -> None:
    work = tmp_path / "work"
    scene = Scene(tmp_path, {"base.txt": "base\n", **MANY}, config=f"[workspace]\nroot='{work}'\n")
    play(scene, "a")
    first = {identity_of(place.path / TREE) for place in kept(work)}
    assert len(first) >= 2
    play(scene, "b")
    second = {identity_of(place.path / TREE) for place in kept(work)}
    assert first <= second  # no place was made for them
    assert [one for one in work.iterdir() if one.name != "places"] == []

    repository = open_repository(scene.repo.path, dict(os.environ))
    _, told = workspaces_of(scene.settings, repository)
    assert f"{len(second)} places of 0 MB kept for later waves" in told.detail

    damaged = kept(work)[0].path
    (damaged / "index").unlink()
    os.utime(damaged, (0, 0))
    done = {step.name: step for step in gc(scene, work, Limits(places=1)) if step.kind == "place"}
    assert done[str(damaged)].done == REMOVED
    assert len(kept(work)) == 1
    assert sum(step.done != REMOVED for step in done.values()) == 1


def test_none_are_kept_if_none_are_asked_for(tmp_path: Path) -> None:
    work = tmp_path / "work"
    config = f"[workspace]\nroot='{work}'\nwarm_places = 0\n"
    play(Scene(tmp_path, {"base.txt": "base\n", **MANY}, config=config), "a")
    assert not (work / "places").exists()
