"""The cost of clones and test checkouts in a repository of 50,000 files, against five times
`git worktree add`.

python -m pytest -m bench -s tests/bench/bench_places.py
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from driver.git.private_git import PrivateGit, open_repository
from driver.preparation.kept_places import KeptPlaces, Limits
from driver.preparation.removal import Removal
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation
from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.bench

FILES = int(os.environ.get("BENCH_FILES", "50000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ITEMS, TESTS = 5, 2


class Yard:
    """A repository and the runs in it, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs, self.disk = folder, 0, 0.0
        self.environ = user_environ(folder / "home")
        files = {f"pkg{n // 500}/m{n // 50 % 10}/f{n}.py": f"V = {n}\n" * 40 for n in range(FILES)}
        self.repo = make_repo(folder / "repo", self.environ, files)

    def worktrees(self) -> None:
        for number in range(ITEMS):
            place = self.folder / f"worktree-{number}"
            self.repo.git("worktree", "add", "-q", "--detach", str(place))

    def remove_worktrees(self) -> None:
        for place in self.folder.glob("worktree-*"):
            shutil.rmtree(place)
        self.repo.git("worktree", "prune")

    def places(self) -> tuple[float, float]:
        """Seconds and processor seconds until five agents and two tests have their places."""
        self.runs += 1
        own = self.folder / f"run-{self.runs}"
        repo = open_repository(self.repo.path, self.environ)
        git = PrivateGit.create(self.folder / f"private-{self.runs}", repo, self.environ)
        context = CloneContext(own, git, repo, Preparation())
        removal = Removal(self.folder / "removed", self.environ)
        kept = KeptPlaces(self.folder / "places" / "own", Limits(), str(self.runs), removal.remove)
        context.warm.kept = kept
        context.checkouts = context.pool(TESTS)
        with ThreadPoolExecutor(ITEMS + TESTS) as pool, ExitStack() as left:

            def clone(number: int) -> None:
                left.callback(context.workspace(f"item-{number}").close)

            def checkout(number: int) -> None:
                del number
                left.enter_context(context.test_checkout(context.base_tree))

            def all_of_them() -> None:
                list(pool.map(lambda one: one[0](one[1]), asked))

            asked: list[tuple[Callable[[int], None], int]] = []
            asked += [(clone, number) for number in range(ITEMS)]
            asked += [(checkout, number) for number in range(TESTS)]
            took = spent(all_of_them)
            self.disk = self.megabytes(own.name)
        context.close()
        shutil.rmtree(own, ignore_errors=True)  # a removal may still be under way
        return took

    def megabytes(self, pattern: str) -> float:
        """The room on disk of what is in the folder."""
        found = [str(one) for one in self.folder.glob(pattern)]
        done = subprocess.run(["du", "-skc", *found], capture_output=True, text=True, check=False)
        return int(done.stdout.splitlines()[-1].split()[0]) / 1024

    def forget(self) -> None:
        shutil.rmtree(self.folder / "places", ignore_errors=True)


def spent(act: Callable[[], None]) -> tuple[float, float]:
    """Seconds, and processor seconds with those of ended programs."""

    def cpu() -> float:
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(sum(resource.getrusage(one)[:2]) for one in who)

    began, used = time.monotonic(), cpu()
    act()
    return time.monotonic() - began, cpu() - used


def test_places_against_worktrees(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    took: dict[str, list[tuple[float, float]]] = {}
    disk: dict[str, float] = {}
    for number in range(ROUNDS):
        took.setdefault("five worktrees", []).append(spent(yard.worktrees))
        disk["five worktrees"] = yard.megabytes("worktree-*")
        yard.remove_worktrees()
        yard.forget()
        took.setdefault("first wave", []).append(yard.places())
        disk["first wave"] = yard.disk
        took.setdefault("second wave", []).append(yard.places())
        changed = {f"pkg{one}/m0/f{one * 500}.py": f"V = {number}\n" for one in range(5)}
        yard.repo.write(changed if FILES > 2500 else {"pkg0/m0/f0.py": f"V = {number}\n"})
        yard.repo.git("commit", "-qam", f"round {number}")
        took.setdefault("third wave, base moved", []).append(yard.places())
    base_s, base_cpu = (median(values) for values in zip(*took["five worktrees"], strict=True))
    load = os.getloadavg()[0]
    print(f"\n{FILES} files, {ITEMS} clones and {TESTS} test checkouts, {ROUNDS} rounds,")
    print(f"  load {load:.1f}; goals: first wave 1.3 x, second wave at most 1 s:")
    for name, found in took.items():
        seconds, cpu = (median(values) for values in zip(*found, strict=True))
        print(
            f"  {name}: {seconds:.2f} s ({seconds / base_s:.2f} x),"
            f" processor {cpu:.2f} s ({cpu / base_cpu:.2f} x)"
        )
    for name, size in disk.items():
        print(f"  {name}: {size:.0f} MB on disk")
