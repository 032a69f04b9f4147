"""Eight machines with one backlog, while workers are killed, connections cut, the server restarted
and clocks are ten minutes apart: each item ships once, and no ceiling is passed.

A failure names its seed. The whole, as the sweep:
`python -m pytest -m sweep -s tests/faults/test_machines_in_a_storm.py`; with
`TIDEGATE_TEST_FIRST_SEED=N` for another seed.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driver.domain.results import NOT_AT_FAULT
from state_store.documents.errors import ExitCode
from state_store.postgres.store import PostgresStore
from tests.support.machines import Between, Machine, several, shifted_clock, surroundings
from tests.support.postgres import Server
from tests.support.processes import eventually
from tests.support.programs import Ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
SEED = int(os.environ.get("TIDEGATE_TEST_FIRST_SEED", "0"))
KILLED = -9
EXPECTED = (0, 3)  # all shipped or nothing to do; others are at it, or a ceiling was reached
CUT = re.compile("was not pushed|not verified|cannot be reached|nothing was recorded")
REFUSED = re.compile('"phase": "ceiling"|"over_budget"')
TOKENS = 1000  # of each dispatch
CONFIG = """
[limits]
lease_s = 20
max_parallel_tests = 1
max_workers = 3
default_dispatch_tokens = 2000
retry_backoff_s = 0
"""


@dataclass(frozen=True)
class Plan:
    """The machines and items of a trial, and the faults that happen on its way."""

    machines: int
    items: int
    kills: int = 0
    cuts: int = 0  # of connections to the database, and a third as many to the remote
    restarts: int = 0
    apart_s: int = 0
    wave: int = 8
    limit_s: float = 3600.0


class Books:
    """The sums of the table of spend at each of its changes, and the ceiling in force at each.

    They are written by triggers, in the transactions that they are about."""

    def __init__(self, server: Server, schema: str) -> None:
        self._server, self._audit = server, f"{schema}_audit"
        self.ceiling = 0
        server.ask(
            f"CREATE SCHEMA {self._audit}",
            f"CREATE TABLE {self._audit}.sums(what text, tokens bigint, "
            "at timestamptz DEFAULT clock_timestamp())",
            f"CREATE FUNCTION {self._audit}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"INSERT INTO {self._audit}.sums(what, tokens) SELECT 'sum', sum(CASE WHEN settled IS "
            f"NULL THEN reserved_tokens ELSE tokens END) FROM {schema}.spend GROUP BY day "
            "ORDER BY 2 DESC LIMIT 1; RETURN NULL; END $$",
            f"CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON {schema}.spend "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {self._audit}.note()",
        )

    def raise_to(self, ceiling: int) -> None:
        rows = f"INSERT INTO {self._audit}.sums(what, tokens) VALUES ('ceiling', {ceiling})"
        self._server.ask(rows)
        self.ceiling = ceiling

    def rows(self) -> list[tuple[str, int]]:
        found = self._server.ask(f"SELECT what, tokens FROM {self._audit}.sums ORDER BY at")
        return [(what, tokens) for what, tokens in found]

    def passed(self) -> Iterator[str]:
        """Each moment at which more was spent and reserved than any run was allowed."""
        ceiling = 0
        for what, tokens in self.rows():
            if what == "ceiling":
                ceiling = tokens
            elif tokens > ceiling:
                yield f"{tokens} tokens of {ceiling}"


@dataclass
class Storm:
    """A trial of a plan."""

    plan: Plan
    seed: int
    server: Server
    pairs: list[tuple[Machine, Between]]
    ends: Counter[int] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    odd: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    refusals: int = 0

    def __post_init__(self) -> None:
        self.first = self.pairs[0][0]
        self.done, self.lock, self.server_is_up = (
            threading.Event(),
            threading.Lock(),
            threading.Lock(),
        )
        with self.store() as store:
            store.read("none")
        self.books = Books(self.server, self.first.address.schema)
        self.books.raise_to(max(12, self.plan.items // 2) * TOKENS)

    def store(self) -> PostgresStore:
        return PostgresStore(self.first.state / "tracker_events.db", self.first.address)

    def run(self) -> None:
        """Work until all has shipped or the time is over."""
        threads = [threading.Thread(target=self._like_cron, args=(m,)) for m, _ in self.pairs]
        threads.append(threading.Thread(target=self._faults))
        for thread in threads:
            thread.start()
        until = time.monotonic() + self.plan.limit_s
        try:
            while not self.done.wait(1.0):
                if len(self.shipped()) >= self.plan.items:
                    break
                if time.monotonic() > until or not any(t.is_alive() for t in threads[:-1]):
                    self.odd.append(f"{len(self.shipped())} items after {self.plan.limit_s} s")
                    break
        finally:
            self.done.set()
            for thread in threads:
                thread.join(900)

    def shipped(self) -> Counter[str]:
        """How many commits the remote has of each item."""
        trailer = "--format=%(trailers:key=Item-Id,valueonly,separator=%x0A)"
        waves = ("--branches=wave*", "--not", "main")
        return Counter(self.first.remote.git("log", trailer, *waves).split())

    def _like_cron(self, machine: Machine) -> None:
        while not self.done.is_set():
            self._one_run(machine)

    def _one_run(self, machine: Machine) -> None:
        ceiling = self.books.ceiling
        machine.environ["TIDEGATE_LIMITS_MAX_DAILY_TOKENS"] = str(ceiling)
        ran = machine.work("--max-items", str(self.plan.wave), "--json")
        with self.lock:
            self.ends[ran.code] += 1
            if ran.code not in (*EXPECTED, KILLED) and not self._was_cut_off(ran):
                told = f"{ran.err[-1200:]} {list(_left(ran))}"
                self.odd.append(f"{machine.folder.name} ended with {ran.code}: {told}")
            if REFUSED.search(ran.out) and ceiling == self.books.ceiling:
                self.refusals += 1
                with self.server_is_up:
                    self.books.raise_to(ceiling + max(4, self.plan.items // 8) * TOKENS)
        shipped = []
        with suppress(ValueError, KeyError):
            shipped = json.loads(ran.out)["items_shipped"]
            with self.lock:
                self.told.update(str(one["slug"]) for one in shipped)
        self.done.wait(0.2 if shipped or ran.code == KILLED else 2.0)

    def _was_cut_off(self, ran: Ran) -> bool:
        """True if all that the run left is left because its connections were cut."""
        if ran.code == ExitCode.NOT_ALL_SHIPPED and self.plan.cuts:
            reasons = list(_left(ran))
            return bool(reasons) and all(CUT.search(why) for why in reasons)
        return self._could_not_begin(ran)

    def _could_not_begin(self, ran: Ran) -> bool:
        """True if the server was away before the run began its wave."""
        return (
            self.plan.restarts + self.plan.cuts > 0
            and ran.code == ExitCode.CANNOT_RUN_HERE
            and any(why in ran.err for why in ("cannot be reached", "nothing was recorded"))
            and not _began_a_wave(ran)
        )

    def _faults(self) -> None:
        draw, plan = random.Random(self.seed), self.plan
        kinds = ["kill"] * plan.kills + ["cut"] * plan.cuts + ["restart"] * plan.restarts
        kinds += ["cut remote"] * (plan.cuts // 3)
        draw.shuffle(kinds)
        for number, kind in enumerate(kinds):
            due = number * plan.items / len(kinds)
            while self.dispatched() < due or not self._fault(kind, draw):
                if self.done.wait(0.05):
                    return
            self.happened[kind] += 1
            if self.done.wait(draw.uniform(0, 0.5)):
                return

    def _fault(self, kind: str, draw: random.Random) -> bool:
        machine, between = draw.choice(self.pairs)
        if kind == "kill":
            return machine.kill()
        if kind == "restart":
            with self.server_is_up:
                self.server.stop(draw.choice(("fast", "immediate")))
                self.done.wait(draw.uniform(0, 1.0))
                self.server.start()
        else:
            target = "remote" if kind == "cut remote" else "database"
            between.cut(target, draw.randrange(20_000 if target == "database" else 3000))
        return True

    def dispatched(self) -> int:
        return sum(machine.dispatched().total() for machine, _ in self.pairs)

    # Afterwards

    def wrong(self) -> Iterator[str]:
        for machine, _ in self.pairs:  # a last run of each brings its file up to date
            self._one_run(machine)
        yield from self.odd
        slugs = self.first.slugs
        shipped = self.shipped()
        if shipped != Counter(slug.upper() for slug in slugs):
            counts = {s: shipped[s.upper()] for s in slugs if shipped[s.upper()] != 1}
            yield f"commits of items: {counts}, {set(shipped) - {s.upper() for s in slugs}}"
        yield from self._wrong_trees()
        yield from self.books.passed()
        if extra := set(self.told) - set(slugs):
            yield f"told as shipped: {extra}"
        if twice := [slug for slug, count in self.told.items() if count > 1]:
            yield f"told as shipped twice: {twice}"
        with self.store() as store:
            yield from (f"store: {problem}" for problem in store.verify())
            statuses = Counter(str(item.get("status")) for item in store.items())
        if statuses != {"in_progress": len(slugs)}:
            yield f"statuses: {statuses}"
        open_rows = self.server.ask(
            f"SELECT count(*) FROM {self.first.address.schema}.spend WHERE settled IS NULL"
        )
        if open_rows != [(0,)]:
            yield f"open reservations: {open_rows}"
        for machine, _ in self.pairs:
            yield from (f"{machine.folder.name}: {one}" for one in self._left(machine))

    def _wrong_trees(self) -> Iterator[str]:
        remote, seen = self.first.remote, Counter[str]()
        for branch in remote.git("for-each-ref", "--format=%(refname)", "refs/heads").split():
            if branch == "refs/heads/main":
                continue
            changed = remote.git("diff", "--name-status", "main", branch).splitlines()
            for line in changed:
                kind, name = line.split("\t")
                seen[name] += 1
                if kind != "A" or remote.git("show", f"{branch}:{name}") != "good":
                    yield f"{branch}: {line}"
        if seen != Counter(f"{slug}.txt" for slug in self.first.slugs):
            yield f"files: {seen - Counter(f'{slug}.txt' for slug in self.first.slugs)}"

    def _left(self, machine: Machine) -> Iterator[str]:
        if not eventually(lambda: not machine.marked.alive(), 2.0):
            yield f"processes are left: {machine.marked.alive()}"
        if len(machine.repo.git("worktree", "list").splitlines()) != 1:
            yield machine.repo.git("worktree", "list")
        if now := set(machine._checkout().items()) ^ set(machine.before.items()):
            yield f"checkout: {sorted(now)}"
        places = [path.name for path in (machine.folder / "work").glob("*/*")]
        if left := [name for name in places if "run" in name]:
            yield f"places are left: {left}"


def _began_a_wave(ran: Ran) -> bool:
    with suppress(ValueError):
        return bool(json.loads(ran.out).get("wave"))
    return bool(ran.out)


def _left(ran: Ran) -> Iterator[str]:
    """Why the run left each of its items that it is at fault for, or why it ended without."""
    try:
        report = ran.report
        records = (report.get("wave") or {}).get("built") or ()
    except ValueError:
        return
    left = [record for record in records if not record["commit"]]
    left = [record for record in left if record["verdict"] not in NOT_AT_FAULT]
    keys = ("slug", "verdict", "error", "ship_error", "repairs", "phases")
    yield from (str({key: record[key] for key in keys}) for record in left)
    if not left:
        yield str(report.get("error"))


def trial(folder: Path, server: Server, plan: Plan, seed: int) -> None:
    draw = random.Random(f"clocks {seed}")
    slugs = [f"i{number:03}" for number in range(plan.items)]
    clock = shifted_clock(folder) if plan.apart_s else None
    with several(folder, server, plan.machines, slugs, CONFIG, seed) as pairs:
        for number, (machine, _) in enumerate(pairs):
            if clock:
                ends = (-plan.apart_s // 2, plan.apart_s // 2)
                shift = ends[number] if number < 2 else draw.randint(*ends)
                machine.environ |= {"LD_PRELOAD": str(clock), "CLOCK_SHIFT_S": str(shift)}
        storm = Storm(plan, seed, server, pairs)
        began = time.monotonic()
        storm.run()
        took_s = time.monotonic() - began
        wrong = list(storm.wrong())
        cuts = sum(between.end() for _, between in pairs)
        sums = storm.books.rows()
        told = (
            f"\nmachines={plan.machines} items={plan.items} seed={seed} ({surroundings()}) "
            f"took={took_s:.0f}s items/min={60 * plan.items / took_s:.0f} "
            f"dispatches={storm.dispatched()} ends={dict(storm.ends)} faults={dict(storm.happened)}"
            f" cut={cuts} clocks={'apart' if clock else 'same'} refusals={storm.refusals} "
            f"sums={len(sums)} ceiling={storm.books.ceiling} violations={len(wrong)} target=0\n"
        )
        sys.stdout.write(told)
        assert wrong == [], told + "\n".join(wrong)
        assert dict(storm.happened) == _wanted(plan), told


def _wanted(plan: Plan) -> dict[str, int]:
    remote = plan.cuts // 3
    wanted = {"kill": plan.kills, "cut": plan.cuts, "restart": plan.restarts, "cut remote": remote}
    return {kind: count for kind, count in wanted.items() if count}


def test_two_machines_in_a_small_storm(postgres: Server, tmp_path: Path) -> None:
    plan = Plan(2, 2, kills=1, cuts=1, apart_s=600, wave=1)
    trial(tmp_path, postgres, plan, SEED)


@pytest.mark.sweep
def test_four_machines_in_a_storm(postgres: Server, tmp_path: Path) -> None:
    plan = Plan(4, 40, kills=10, cuts=6, restarts=2, apart_s=600)
    trial(tmp_path, postgres, plan, SEED)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "plan",
    [Plan(8, 400, wave=16), Plan(8, 400, kills=100, cuts=30, restarts=10, apart_s=600, wave=16)],
    ids=["quiet", "storm"],
)
def test_eight_machines_ship_four_hundred_items_once(
    postgres: Server, tmp_path: Path, plan: Plan
) -> None:
    trial(tmp_path, postgres, plan, SEED)
