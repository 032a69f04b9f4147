"""The cost of `[workspace] copy` for a large folder, against the same wave without it.

python -m pytest -m bench -s tests/bench/bench_copies.py
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from statistics import median

import pytest

from tests.support.waves import Scene, ScriptedDriver, item, writes

pytestmark = [pytest.mark.bench, pytest.mark.in_walls]

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
ITEMS = 4
PACKAGES, FILES_EACH = 330, 10  # 3,960 entries, 27 MB
MOST_BYTES = 16_000


def fill(folder: Path) -> None:
    """A folder like a node_modules of a middle-sized project."""
    sizes = random.Random(1)
    for package in range(PACKAGES):
        library = folder / f"package-{package}" / "lib"
        library.mkdir(parents=True)
        for number in range(FILES_EACH):
            (library / f"{number}.js").write_bytes(os.urandom(sizes.randrange(300, MOST_BYTES)))


class Enclosed(ScriptedDriver):
    """A backend whose agents, were they programs, would run inside."""

    encloses = True


def wave(folder: Path, *, copies: bool) -> tuple[float, float]:
    """Seconds and processor seconds of a wave of four items."""
    files = {".gitignore": "node_modules/\n", "base.txt": "base\n"}
    config = '[workspace]\ncopy = ["node_modules"]\n' if copies else ""
    scene = Scene(folder, files, config=config)
    fill(scene.repo.path / "node_modules")
    names = [f"item-{number}" for number in range(ITEMS)]
    needs = " && test -e node_modules/package-7/lib/7.js" if copies else ""
    tasks = [
        item(name, f"{name}.txt", f"test -e {name}.txt{needs}", requireAdversarialReview=False)
        for name in names
    ]
    scripts = {name: writes(**{f"{name}__txt": "done\n"}) for name in names}
    began, cpu = time.monotonic(), os.times()
    report = scene.run(Enclosed(scripts, environ=scene.environ), tasks)
    took, now = time.monotonic() - began, os.times()
    assert report["shipped"] == names, report
    return took, sum(now[:4]) - sum(cpu[:4])


def test_a_copied_folder_costs_little(tmp_path: Path) -> None:
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(ROUNDS):
        for copies in (False, True):
            took[copies].append(wave(tmp_path / f"{number}-{copies}", copies=copies))
    (bare, bare_cpu), (ours, ours_cpu) = (
        [median(values) for values in zip(*took[copies], strict=True)] for copies in (False, True)
    )
    print(
        f"\n{ITEMS} items, {PACKAGES * (FILES_EACH + 2)} entries copied:"
        f" {ours:.2f} s against {bare:.2f} s without, ratio {ours / bare:.2f} (goal 1.3);"
        f" processor {ours_cpu:.2f} s against {bare_cpu:.2f} s, ratio {ours_cpu / bare_cpu:.2f};"
        f" load {os.getloadavg()[0]:.1f}"
    )
