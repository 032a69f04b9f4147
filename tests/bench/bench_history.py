"""What long histories cost a cycle: of commits, for what was shipped, and of past waves.

`python -m pytest -m bench -s tests/bench/bench_history.py` prints it: the first time, and once all
but a few commits are known.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from driver.git.private_git import PrivateGit, open_repository
from driver.publishing.published_history import History
from state_store.write_api import STATE_DB_FILENAME
from tests.bench.cycles import Cycles
from tests.bench.past_waves import add_past_waves
from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.bench
COMMITS, SHIPPED, NEW = 50_000, 5_000, 20
PAST_WAVES = 5_000


def _spent_s(work: Callable[[], object]) -> float:
    """Processor seconds of this process and its children."""
    before = os.times()
    work()
    return sum(now - was for now, was in zip(os.times()[:4], before[:4], strict=True))


def _commits(count: int, first: int) -> bytes:
    told = []
    for number in range(first, first + count):
        trailers = f"Wave-Id: w\nItem-Id: {number}\nItem-Task: t\n" if number % 10 == 0 else ""
        text = f"change {number}\n\n{trailers}".encode()
        told.append(
            b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata %d\n%s\n"
            % (1_700_000_000 + number, len(text), text)
        )
    return b"".join(told)


def test_a_long_history_is_walked_through_once(tmp_path: Path) -> None:
    environ = user_environ(tmp_path)
    repo = make_repo(tmp_path / "repo", environ, {"a.txt": "a\n"})

    def add(count: int, first: int) -> str:
        stream = _commits(count, first)
        if first:  # on what is there
            tip = repo.git("rev-parse", "refs/heads/main").strip()
            stream = b"reset refs/heads/main\nfrom %s\n\n" % tip.encode() + stream
        done = ("git", "-C", str(repo.path), "fast-import", "--quiet", "--force")
        subprocess.run(done, input=stream, check=True, env=dict(environ))
        return repo.git("rev-parse", "refs/heads/main").strip()

    tip = add(COMMITS, 0)
    repository = open_repository(repo.path, environ)
    git = PrivateGit.create(tmp_path / "ours.git", repository, environ)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / STATE_DB_FILENAME).touch()
    history = History.kept(tmp_path / "state", repository, "main")
    first = _spent_s(lambda: history.shipments(git, tip))
    later = add(NEW, COMMITS)
    again = _spent_s(lambda: history.shipments(git, later))
    same = _spent_s(lambda: history.shipments(git, later))
    print(f"\n{COMMITS} commits, {SHIPPED} shipments: {first:.2f} s;"
          f" {NEW} commits more: {again:.3f} s; the same again: {same:.3f} s")  # fmt: skip
    assert len(history.shipments(git, later)) == SHIPPED + NEW // 10
    assert again < first / 2


def test_past_waves(tmp_path: Path) -> None:
    """One item with an instant agent, in a state folder with and without past waves."""
    young, old = (Cycles(tmp_path / name, 60) for name in ("young", "old"))
    one = ("--execute", "--max-items", "1")
    for cycles in (young, old):
        cycles.run(*one)
    add_past_waves(old.state, PAST_WAVES)
    first = old.run(*one)[0]
    runs = [(young.run(*one)[0], old.run(*one)[0]) for _ in range(5)]
    few, many = (median(column) for column in zip(*runs, strict=True))
    size = (old.state / STATE_DB_FILENAME).stat().st_size / PAST_WAVES / 2**10
    print(f"\n{PAST_WAVES:,} past waves: the first cycle {first:.2f} s of processor, the next"
          f" {many:.2f} s, {many / few:.2f} x the {few:.2f} s without them;"
          f" {size:.1f} KiB a wave in the database")  # fmt: skip
