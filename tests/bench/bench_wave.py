"""What the engine costs, as ratios to bare programs measured beside it in the same run.

python -m pytest -m bench -s tests/bench/bench_wave.py
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import pytest

from tests.bench.arena import (
    IDENTITY,
    Arena,
    Ran,
    UnittestJob,
    agent_environment,
    an_arena,
    bare,
    cloned,
    cpu_s,
    engine,
    interleaved,
    jobs,
    load,
    rounds,
    test_environment,
)
from tests.bench.same_runs import BareRuns, asked

pytestmark = pytest.mark.bench


@dataclass(frozen=True)
class SharedJob(UnittestJob):
    """An item whose test is that of all others, green with the work of any of them."""

    @property
    def test(self) -> list[str]:
        return [sys.executable, "-m", "unittest", "tests.test_m000"]

    @property
    def text(self) -> str:
        return (
            "import unittest\nfrom importlib import import_module\n\n\n"
            "class TestValues(unittest.TestCase):\n"
            "    def test_values(self):\n"
            "        names = [f'pkg.m{n:03}' for n in range(8)]\n"
            "        self.assertIn(1, [import_module(name).VALUE for name in names])\n"
        )


ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("TIDEGATE_BENCH_ROUNDS", "3"))
SLEEP_S = 2.0


@pytest.mark.parametrize(("count", "goal"), [(8, 1.25), (64, 1.5)])
def test_a_wave_against_a_bare_pool(tmp_path: Path, count: int, goal: float) -> None:
    """Against one test an item, which is what belief costs as well, and against the same runs,
    which is what the engine costs by itself."""
    arena, work = an_arena(tmp_path, SLEEP_S), jobs(count)
    ran: list[Ran] = []
    runs: list[int] = []

    def with_engine(number: int) -> float:
        ran.append(engine(arena, work, count, tmp_path / f"engine-{number}"))
        return ran[-1].seconds

    def same_runs(number: int) -> float:
        asks = asked(ran[number].report, work)
        runs.append(len(asks))
        return BareRuns(arena, asks, tmp_path / f"same-{number}").seconds(work, count)

    def with_none(number: int) -> float:
        return bare(arena, work, count, tmp_path / f"bare-{number}")

    ways, cpu = zip(*map(cpu_s, (with_engine, same_runs, with_none)), strict=True)
    ours, same, once = rounds(ROUNDS, *ways)
    last = max(max(one.verified.values()) for one in ran)
    print(
        f"\n{count} items, {count} workers, agents sleep {SLEEP_S:.0f} s,"
        f" {median(runs) / count:.1f} test runs an item:"
        f"\n  engine {median(ours):.2f} s, slowest item verified after {last:.2f} s"
        f"\n  engine alone: {_against(ours, same)} of a bare pool with the same test runs"
        f"\n  with belief (goal {goal}): {_against(ours, once)} of one with one test an item"
        f"\n  processor time an item: {_ms_each(cpu[0], count)}, bare with the same runs"
        f" {_ms_each(cpu[1], count)}, with one {_ms_each(cpu[2], count)}; {load()}"
    )


def test_one_item_with_an_instant_agent(tmp_path: Path) -> None:
    """Against clone, agent, test, commit and push. The first round is the cold one; later rounds
    find what earlier ones kept."""
    work = [UnittestJob("m000")]
    arena = an_arena(tmp_path, 0.0, work)

    def with_engine(number: int) -> float:
        return engine(arena, work, 1, tmp_path / f"engine-{number}").seconds

    def by_hand(number: int) -> float:
        return _by_hand(arena, work[0], tmp_path / f"hand-{number}")

    ways, cpu = zip(*map(cpu_s, (with_engine, by_hand)), strict=True)
    ours, hand = rounds(2 * ROUNDS, *ways)
    print(
        f"\none item, instant agent: {ours[0] / hand[0]:.2f} x of the work by hand at first (goal"
        f" 1.5), then {_against(ours[1:], hand[1:])} (goal 1.1)"
        f"\n  processor time {_against(cpu[0][1:], cpu[1][1:])}, {load()}"
    )


def _by_hand(arena: Arena, job: UnittestJob, clone: Path) -> float:
    began = time.monotonic()
    cloned(arena, clone)
    subprocess.run(arena.agent, cwd=clone, env=agent_environment(job, "build"), check=True)
    subprocess.run(job.test, cwd=clone, env=test_environment(), check=True, capture_output=True)
    remote = str(arena.folder / "remote.git")
    for command in (
        ("add", "-A"),
        (*IDENTITY, "commit", "-q", "-m", job.slug),
        ("push", "-q", remote, f"HEAD:{clone.name}"),
    ):
        subprocess.run(["git", *command], cwd=clone, check=True)
    return time.monotonic() - began


_PROGRAMS: list[str] = []  # each program that this process has started


def _note_programs(event: str, facts: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and isinstance(facts[1], list):
        _PROGRAMS.append(Path(str(facts[1][0])).name)


def test_what_a_wave_and_what_each_item_costs(tmp_path: Path) -> None:
    """The item's part is the difference of a wave with eight items to a wave with one. Programs
    that talk to the remote are not among the processes of git."""
    sys.addaudithook(_note_programs)
    work = [UnittestJob(f"m{n:03}") for n in range(8)]
    arena = an_arena(tmp_path, 0.0, work)
    counts = {"git": list[list[int]](), "runs": [], "own": [], "all": []}
    for number in range(ROUNDS):
        seen = [_cost(arena, work[:size], tmp_path / f"{number}-{size}") for size in (1, 8)]
        for name, found in counts.items():
            found.append([round(one[name]) for one in seen])
    told = {
        name: [median(column) for column in zip(*found, strict=True)]
        for name, found in counts.items()
    }
    each = {name: (eight - one) / 7 for name, (one, eight) in told.items()}
    print(
        f"\ntest runs an item: {told['runs'][1] / 8:.2f} (goal 3.5)"
        f"\n  processes of git: {each['git']:.1f} an item (goal 4),"
        f" {told['git'][0] - each['git']:.0f} a wave (goal 12)"
        f"\n  orchestrator: {each['own']:.0f} ms of processor an item (goal 60)"
        f"\n  with all programs: {each['all']:.0f} ms of processor an item,"
        f" a wave of one item {told['all'][0]:.0f} ms; {load()}"
    )


def test_how_often_a_test_runs_where_all_items_share_it(tmp_path: Path) -> None:
    """One run on the base serves all items, and one run tests all together. With a test of its own
    an item needs five runs, because each proves something else: the base, the work alone, that the
    test can fail, its commit, and the last commit."""
    work = [SharedJob(f"m{n:03}") for n in range(8)]
    arena = an_arena(tmp_path, 0.0, work)
    ran = engine(arena, work, len(work), tmp_path / "engine")
    attempts = [attempt for item in ran.report["built"] for attempt in item["attempts"]]
    receipts = [one for a in attempts for one in a["evidence"]["receipts"]]
    receipts += [r for s in ran.report["shipped_repos"] for r in s["integration"]["receipts"]]
    # The items show the same run on the base.
    runs = {(one["purpose"], one["tree"], one["durationS"]): one["purpose"] for one in receipts}
    kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(runs.values()).items())
    print(f"\none test for 8 items: {len(runs) / 8:.2f} runs an item (goal 3.5): {kinds}")


def _cost(arena: Arena, work: Sequence[UnittestJob], place: Path) -> dict[str, float]:
    """The processes of git, the test runs, and the milliseconds of processor of a wave."""
    _PROGRAMS.clear()
    before = os.times()
    ran = engine(arena, work, len(work), place)
    gc.collect()  # of a wave that is over the last program is ended, and only then counted
    spent = [1000 * (now - then) for now, then in zip(os.times()[:4], before[:4], strict=True)]
    runs = len(asked(ran.report, work))
    return {"git": _PROGRAMS.count("git"), "runs": runs, "own": sum(spent[:2]), "all": sum(spent)}


def _against(ours: list[float], base: list[float]) -> str:
    """The ratio of medians, the other's seconds, and the ratio of each round."""
    each = " ".join(f"{one / other:.2f}" for one, other in zip(ours, base, strict=True))
    return f"{median(ours) / median(base):.2f} x the {median(base):.2f} s (rounds {each})"


def _ms_each(cpu: list[float], count: int) -> str:
    return f"{1000 * median(cpu) / count:.0f} ms"


def test_repair_costs_one_more_round_and_delays_no_other_item(tmp_path: Path) -> None:
    arena = an_arena(tmp_path, SLEEP_S)
    calm, rough = jobs(8), jobs(8, failing=4)
    ran: dict[str, list[Ran]] = {"calm": [], "rough": []}

    def with_engine(name: str) -> Callable[[int], float]:
        def run(number: int) -> float:
            work = calm if name == "calm" else rough
            ran[name].append(engine(arena, work, 8, tmp_path / f"{name}-{number}"))
            return ran[name][-1].seconds

        return run

    without, with_repair, base = interleaved(
        ROUNDS,
        with_engine("calm"),
        with_engine("rough"),
        lambda number: bare(arena, rough, 8, tmp_path / f"bare-{number}"),
    )
    all_calm = mean(at for one in ran["calm"] for at in one.verified.values())
    steady = mean(at for one in ran["rough"] for slug, at in _items(one, failing=False))
    failing = mean(at for one in ran["rough"] for slug, at in _items(one, failing=True))
    print(
        f"\n8 items, 4 red once: engine {with_repair:.2f} s, bare {base:.2f} s,"
        f" ratio {with_repair / base:.2f}; without red items {without:.2f} s"
        f"\n  verified after (mean): {all_calm:.2f} s where none is red;"
        f" {steady:.2f} s beside red ones ({steady / all_calm:.2f} x);"
        f" {failing:.2f} s for the red ones (one more round: {failing - steady:.2f} s)"
    )


def _items(ran: Ran, *, failing: bool) -> list[tuple[str, float]]:
    return [(slug, at) for slug, at in ran.verified.items() if slug.endswith("-fails") == failing]


@pytest.mark.parametrize("program", ["wave_loop.py", "wave_scheduler.py"])
def test_help_against_importing_argparse(program: str) -> None:
    ours = [sys.executable, str(ROOT / "driver" / program), "--help"]
    base = [sys.executable, "-c", "import argparse"]
    took, bare_took = interleaved(15, lambda _: _seconds(ours), lambda _: _seconds(base))
    print(
        f"\n{program} --help: {1000 * took:.0f} ms, import argparse {1000 * bare_took:.0f} ms,"
        f" ratio {took / bare_took:.2f} (goal 1.4); modules {_modules(ours)} and {_modules(base)}"
    )


def _seconds(argv: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def _modules(argv: list[str]) -> int:
    timed = [argv[0], "-X", "importtime", *argv[1:]]
    done = subprocess.run(timed, check=True, capture_output=True, text=True)
    return done.stderr.count("import time:") - 1
