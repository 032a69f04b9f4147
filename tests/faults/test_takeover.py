"""Two schedulers on one state folder, the first of which is stopped, killed or merely not alone."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from state_store.database.store import EventStore
from tests.support.beside import beside
from tests.support.killing import AGENT, Yard
from tests.support.processes import eventually, is_stopped
from tests.support.programs import Ran
from tests.support.warm import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
BY_POLICY = 3
PATIENCE_S = 60.0
STOPS = 5
SHORT = "[limits]\nlease_s = 0.8\n"
LONG = "[limits]\nlease_s = 6000\n"
SLUGS = ("a", "c")

# Only the first who comes here waits, as long as `hold` is there.
HOLD = """
if mkdir FOLDER/WHERE 2>/dev/null; then while [ -e FOLDER/hold ]; do sleep 0.02; done; fi
"""


def held_yard(folder: Path, where: str, config: str) -> Yard:
    """A yard whose first agent or first test waits."""
    (folder / "hold").touch()
    hold = HOLD.replace("FOLDER", str(folder))
    agent = hold.replace("WHERE", "agent") + AGENT if where == "agent" else AGENT
    yard = Yard(folder, slugs=SLUGS, config=config, agent=agent)
    if where == "test":
        before = hold.replace("WHERE", "test").strip()
        yard.tests |= {"a": f"{before}; {yard.tests['a']}"}
        yard.track(*(yard.item(slug) for slug in SLUGS))
    return yard


def is_locking(pid: int) -> bool:
    """Whether a process holds the lock of a file: the store's, the ledger's, the tracker's. Who is
    stopped there keeps all others out until it goes on or ends, which is no takeover."""
    lines = map(str.split, Path("/proc/locks").read_text(encoding="ascii").splitlines())
    return any(words[1] == "FLOCK" and words[4] == str(pid) for words in lines)


def leases_are_over(yard: Yard) -> bool:
    with EventStore(yard.state / "tracker_events.db") as store:
        rows = [store.lease_row(f"{yard.repo.path}#{slug}") for slug in SLUGS]
        return not any(row is not None and row.held_at(store.clock.now()) for row in rows)


@contextmanager
def stopped(yard: Yard, where: str, fail: str = "") -> Iterator[Program]:
    """A scheduler that was stopped in the middle of its work."""
    with yard.running(fail) as first:
        if not fail:
            assert eventually((yard.folder / where).exists, PATIENCE_S)
            first.send_signal(signal.SIGSTOP)
        assert eventually(lambda: is_stopped(first.pid), PATIENCE_S)
        yield first


def gone_on(yard: Yard, first: Program) -> Ran:
    """The end of a scheduler that was stopped."""
    (yard.folder / "hold").unlink(missing_ok=True)
    first.send_signal(signal.SIGCONT)
    out, err = first.communicate(timeout=PATIENCE_S)
    return Ran(first.returncode, out, err)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("where", "fail"),
    [
        ("agent", ""),
        ("before its push", "git.before_push=stop"),
        *(
            pytest.param(where, fail, marks=pytest.mark.sweep)
            for where, fail in (
                ("test", ""),
                ("after its push", "git.after_push=stop"),
                ("before it makes its commits", "git.before_fast-import@2=stop"),
                ("before its commits are safe", "git.before_update-ref@1=stop"),
                ("before it makes its branch", "git.before_update-ref@2=stop"),
            )
        ),
    ],
)
@beside
def test_who_was_stopped_and_overtaken_ships_nothing(folder: Path, where: str, fail: str) -> None:
    stopped_at_rest(folder, where, SHORT, overtaken, fail)


def stopped_at_rest(
    folder: Path, where: str, config: str, then: Callable[..., None], fail: str = ""
) -> None:
    """Call `then` with a yard and its scheduler, stopped where none of its threads held a lock."""
    for go in range(STOPS):
        place = folder / str(go)
        place.mkdir()
        yard = held_yard(place, where, config)
        with stopped(yard, where, fail) as first:
            if not is_locking(first.pid):
                then(yard, first)
                return
    pytest.fail(f"stopped {STOPS} times with a lock held")


def overtaken(yard: Yard, first: Program) -> None:
    assert eventually(lambda: leases_are_over(yard), PATIENCE_S)
    # On a busy machine a lease as short as the first one's would not outlast a pause of the second.
    yard.environ["TIDEGATE_LIMITS_LEASE_S"] = "600"
    second = yard.run()
    assert second.code == 0, second.err
    assert "ended without saying so" not in second.err
    shipped = yard.commits()
    late = gone_on(yard, first)
    assert late.code == BY_POLICY, late.err
    assert set(late.verdicts.values()) == {"leased_elsewhere"}
    assert late.report["items_shipped"] == []
    assert yard.commits() == shipped
    assert yard.wrong(clean_clone=True) == []


@pytest.mark.more
@beside
def test_who_is_only_stopped_keeps_its_items_while_the_lease_lasts(folder: Path) -> None:
    stopped_at_rest(folder, "agent", LONG, kept_out)


def kept_out(yard: Yard, first: Program) -> None:
    second = yard.run()
    assert second.code == BY_POLICY, second.err
    assert f":{first.pid}:" in second.err
    assert "@" not in second.err
    late = gone_on(yard, first)
    assert late.code == 0, late.err
    assert yard.wrong() == []
    assert set(yard.dispatched().values()) == {1}


@pytest.mark.more
@beside
def test_after_a_kill_the_next_run_waits_for_nobody(folder: Path) -> None:
    yard = held_yard(folder, "agent", LONG)
    with yard.running() as first:
        assert eventually((folder / "agent").exists, PATIENCE_S)
        first.kill()
        first.wait()
        (folder / "hold").unlink()
        second = yard.run()
    assert second.code == 0, second.err
    assert yard.wrong() == []


@pytest.mark.more
@beside
def test_a_holder_that_died_between_claim_and_wave_is_not_waited_for(folder: Path) -> None:
    yard = Yard(folder, slugs=SLUGS, config=LONG)
    yard.run("git.before_init@2=kill")
    assert not leases_are_over(yard)
    assert yard.run().code == 0
    assert yard.wrong() == []


def raced(folder: Path) -> list[str]:
    """What is wrong after two schedulers were started at the same moment."""
    folder.mkdir()
    yard = Yard(folder, slugs=SLUGS)
    with yard.running() as first, yard.running() as second:
        said = [program.communicate(timeout=PATIENCE_S) for program in (first, second)]
    codes = sorted((first.returncode, second.returncode))
    wrong = yard.wrong()
    if codes not in ([0, 0], [0, BY_POLICY]):
        wrong.append(f"ended with {codes}: {said}")
    if set(yard.dispatched().values()) != {1}:
        wrong.append(f"agents: {yard.dispatched()}")
    return wrong


@pytest.mark.more
@beside
def test_two_that_start_at_once_build_each_item_once(folder: Path) -> None:
    assert raced(folder / "race") == []


@pytest.mark.sweep
def test_two_that_start_at_once_a_hundred_times(tmp_path: Path) -> None:
    wrong = [(go, one) for go in range(100) for one in raced(tmp_path / str(go))]
    sys.stdout.write(f"\ntwo-schedulers starts=100 violations={len(wrong)} target=0\n")
    assert wrong == []
