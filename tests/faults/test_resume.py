"""What a run that ended too early leaves to the next one, and what it must not leave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from state_store.documents.journal import entry_path, load_entries
from tests.support.beside import beside
from tests.support.interpreter import IN_SHELL
from tests.support.killing import AGENT, Yard
from tests.support.processes import eventually, is_stopped
from tests.support.programs import Ran
from tests.support.repos import Checkout
from tests.support.rewound import Rewound
from tools import halt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
KILLED = -signal.SIGKILL
BY_POLICY, CANNOT_RUN = 3, 4
REPAIR_CAP = 1  # of tier 1
IN_THE_REPAIR = "process.after_finish@4=kill"  # a look at the remote, agent, test, agent
KIB = 1024
MORE_ROOMS = (32 * KIB, 64 * KIB, 96 * KIB, 128 * KIB, 256 * KIB, 1024 * KIB)


@pytest.mark.more
@beside
def test_a_line_gets_no_more_agents_for_being_killed(folder: Path) -> None:
    # Without tests on the base, which run beside agents, the first process to end after a look at
    # the remote is the agent.
    yard = Yard(folder, slugs=("red",))
    yard.environ["TIDEGATE_VERIFY_RED_FIRST"] = "off"
    codes, agents = [], []
    for _ in range(5):
        codes.append(yard.run("process.after_finish@2=kill").code)
        agents.append(yard.dispatched()["red"])
    # Two attempts are all that a line has; one that is at its end is judged, and then a new begins.
    assert agents == [1, 1 + REPAIR_CAP, 1 + REPAIR_CAP, 3, 4]
    assert codes == [KILLED, KILLED, 1, KILLED, KILLED]
    judged = yard.run()
    assert judged.verdicts == {"red": "failed"}
    assert "2 attempts were used up" in judged.err
    assert yard.commits() == {}


@beside
def test_a_repair_that_a_kill_broke_off_is_given_once_more(folder: Path) -> None:
    yard = Yard(folder, slugs=("b",))
    yard.environ["TIDEGATE_VERIFY_RED_FIRST"] = "off"
    assert yard.run(IN_THE_REPAIR).code == KILLED
    assert yard.dispatched()["b"] == 2
    again = yard.run()
    assert again.code == 0, again.err
    assert yard.dispatched()["b"] == 3
    assert yard.wrong() == []


@pytest.mark.more
@beside
def test_a_repair_that_kills_each_run_is_not_given_for_ever(folder: Path) -> None:
    yard = Yard(folder, slugs=("red",))
    yard.environ["TIDEGATE_VERIFY_RED_FIRST"] = "off"
    agents = []
    for point in (IN_THE_REPAIR, "process.after_finish@3=kill"):
        assert yard.run(point).code == KILLED
        agents.append(yard.dispatched()["red"])
    assert yard.run().code == 1
    assert [*agents, yard.dispatched()["red"]] == [2, 3, 3]


Left = tuple[Yard, Rewound]


@pytest.fixture(scope="module")
def halted_once(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("halted")
    return halted_before_the_ship(folder), Rewound(folder)


@pytest.fixture
def halted(halted_once: Left) -> Yard:
    """A yard whose items were verified by a run that was halted before it could ship them."""
    yard, rewound = halted_once
    rewound.again()
    return yard


@pytest.fixture(scope="module")
def shipped_once(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("shipped")
    yard = Yard(folder, slugs=("a", "c"))
    assert yard.run("git.after_push=kill").code == KILLED
    return yard, Rewound(folder)


@pytest.fixture
def shipped(shipped_once: Left) -> Yard:
    """A yard whose items were shipped by a run that was killed before it could say so."""
    yard, rewound = shipped_once
    rewound.again()
    return yard


def halted_before_the_ship(folder: Path) -> Yard:
    yard = Yard(folder, slugs=("a", "c"))
    switch = f'{IN_SHELL} "{halt.__file__}" --state-dir "{yard.state}"'
    once = f"mkdir {folder}/once 2>/dev/null && {switch} set enough >&2"
    # Where the work of both lies together, both were verified, and nothing is shipped yet.
    together = f"grep -qsx good c.txt && [ ! -e {folder}/once ]"
    yard.tests["a"] = f"{yard.tests['a']} && if {together}; then {once}; fi"
    yard.track(*(yard.item(slug) for slug in yard.slugs))
    first = yard.run()
    assert first.code == BY_POLICY, first.err
    assert yard.commits() == {}
    subprocess.run(f"{switch} --clear", shell=True, check=True, capture_output=True)  # noqa: S602
    return yard


@pytest.mark.more
def test_what_was_verified_and_halted_is_shipped_without_an_agent(halted: Yard) -> None:
    before = halted.dispatched()
    assert halted.run().code == 0
    assert halted.dispatched() == before
    assert halted.wrong(clean_clone=True) == []


@pytest.mark.more
def test_a_halt_while_resuming_costs_nothing_of_what_was_done(halted: Yard) -> None:
    yard = halted
    before = yard.dispatched()
    with yard.running("git.before_init@2=stop") as again:
        assert eventually(lambda: is_stopped(again.pid), 20)
        halt.halt("again", state_dir=yard.state)
        again.send_signal(signal.SIGCONT)
        again.communicate(timeout=60)
    assert again.returncode == BY_POLICY
    halt.clear_halt(state_dir=yard.state)
    assert yard.run().code == 0
    assert yard.dispatched() == before
    assert yard.wrong() == []


def is_only_tracked(yard: Yard) -> None:
    commits, agents = yard.commits(), yard.dispatched()
    assert set(yard.statuses().values()) == {"claimed"}
    done = yard.run()
    assert done.code == 0, done.err
    assert (yard.commits(), yard.dispatched()) == (commits, agents)
    assert yard.wrong() == []


@pytest.mark.more
def test_what_was_shipped_and_not_tracked_is_only_tracked(shipped: Yard) -> None:
    is_only_tracked(shipped)


@pytest.mark.more
@beside
def test_what_was_pushed_and_not_looked_at_is_only_tracked(folder: Path) -> None:
    yard = Yard(folder, slugs=("a",))
    assert yard.run("git.after_push=kill").code == KILLED
    is_only_tracked(yard)


@pytest.mark.more
def test_what_was_shipped_and_not_tracked_is_not_built_on_a_base_that_moved_on(
    shipped: Yard,
) -> None:
    commits, agents = shipped.commits(), shipped.dispatched()
    shipped.repo.commit({"base.txt": "moved\n"})
    done = shipped.run()
    assert done.code == 0, done.err
    assert (shipped.commits(), shipped.dispatched()) == (commits, agents)
    assert set(shipped.statuses().values()) == {"in_progress"}


@pytest.mark.more
def test_a_push_that_is_not_known_to_have_arrived_is_not_replaced_by_another(
    shipped: Yard,
) -> None:
    commits = shipped.commits()
    away = shipped.remote.path.rename(shipped.folder / "unreachable")
    waiting = shipped.run()
    assert set(waiting.verdicts.values()) == {"undecided"}
    assert "not yet on" in waiting.err
    away.rename(shipped.remote.path)
    assert shipped.run().code == 0
    assert shipped.commits() == commits
    assert shipped.wrong() == []


@pytest.mark.more
@beside
def test_what_people_added_to_a_shipped_branch_is_left_to_them(folder: Path) -> None:
    yard = Yard(folder, slugs=("a",))
    assert yard.run("git.after_push=kill").code == KILLED
    (one,) = yard.commits()["A"]
    tree = yard.remote.git("rev-parse", f"{one.commit}^{{tree}}")
    fix = yard.remote.git("commit-tree", tree, "-p", one.commit, "-m", "a fix of theirs")
    yard.remote.git("update-ref", one.branch, fix)
    again = yard.run()
    assert again.verdicts == {"a": "undecided"}
    assert "has moved on the remote" in again.err
    assert yard.dispatched()["a"] == 1
    assert yard.remote.git("for-each-ref", "--format=%(objectname)", "refs/heads/wave") == fix


PUSHES_ONCE = "mkdir {folder}/pushed 2>/dev/null && git -C {folder}/other push -q origin main\n"


@pytest.mark.more
@pytest.mark.parametrize(
    "where",
    [
        pytest.param("git.before_fetch=kill", marks=pytest.mark.sweep),
        pytest.param("git.after_fetch=kill", marks=pytest.mark.sweep),
        pytest.param("git.before_push=kill", marks=pytest.mark.sweep),
        "git.after_push=kill",
    ],
)
@beside
def test_a_kill_on_the_way_to_a_branch_that_moved_on_costs_no_agent_and_no_second_commit(
    folder: Path, where: str
) -> None:
    yard = Yard(folder, slugs=("a", "c"), agent=PUSHES_ONCE + AGENT)
    yard.repo.git("clone", "-q", str(yard.remote.path), str(folder / "other"))
    theirs = Checkout(folder / "other", yard.environ).commit({"theirs.txt": "t\n"})
    assert yard.run(where).code == KILLED
    agents = yard.dispatched()
    done = yard.run()
    assert done.code == 0, done.err
    assert yard.dispatched() == agents
    commits = [one for several in yard.commits().values() for one in several]
    assert len(commits) == len(yard.slugs)
    assert all(one.tree == one.proved for one in commits)
    assert set(yard.statuses().values()) == {"in_progress"}
    (branch,) = {one.branch for one in commits}
    assert yard.remote.git("rev-parse", "main") == theirs
    assert yard.remote.git("merge-base", "main", branch) == theirs


@pytest.mark.more
@pytest.mark.parametrize("new", [pytest.param("prompt", marks=pytest.mark.sweep), "base"])
def test_other_work_under_an_old_slug_is_built(halted: Yard, new: str) -> None:
    is_built_anew(halted, new)


@pytest.mark.more
@pytest.mark.parametrize("new", ["prompt", pytest.param("base", marks=pytest.mark.sweep)])
@beside
def test_other_work_under_the_slug_of_shipped_work_is_built(folder: Path, new: str) -> None:
    yard = Yard(folder, slugs=("a",))
    assert yard.run().code == 0
    is_built_anew(yard, new)


def is_built_anew(yard: Yard, new: str) -> None:
    yard.track(yard.item("a", id="NEW", **({"prompt": "Else."} if new == "prompt" else {})))
    if new == "base":
        yard.repo.commit({"base.txt": "moved\n"})
        yard.repo.git("push", "-q", "--no-verify", "origin", "main")
    done = yard.run()
    assert done.code == 0, done.err
    assert yard.dispatched()["a"] == 2
    assert len(yard.commits()["NEW"]) == 1


@pytest.mark.more
def test_a_torn_journal_entry_is_absent_and_named_at_every_length(halted: Yard) -> None:
    path = entry_path(halted.state, "a")
    whole = path.read_bytes().rstrip(b"\n")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        entries, unread = load_entries(halted.state)
        assert ([slug for _, slug in entries], unread) == (["c"], (path,))


@pytest.mark.more
@pytest.mark.parametrize("part", [pytest.param(0.0, marks=pytest.mark.sweep), 0.5])
def test_with_a_torn_journal_entry_the_item_is_built_anew(halted: Yard, part: float) -> None:
    yard = halted
    path = entry_path(yard.state, "a")
    os.truncate(path, int(path.stat().st_size * part))
    done = yard.run()
    assert done.code == 0, done.err
    assert f"{path} is no journal entry and was not read" in done.err
    assert yard.dispatched() == {"a": 2, "c": 1}
    assert yard.wrong(clean_clone=True) == []


def one_sentence(ran: Ran) -> None:
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) == 1, ran.err


@pytest.mark.more
@pytest.mark.parametrize("room", [0, 16 * KIB])
@beside
def test_without_room_for_the_state_no_agent_is_started(folder: Path, room: int) -> None:
    yard = Yard(folder, slugs=("a",))
    limited = ("sh", "-c", f'ulimit -f {room // 512}; exec "$@"', "sh")
    refused = yard.run(prefix=limited)
    assert refused.code == CANNOT_RUN
    one_sentence(refused)
    assert yard.dispatched() == {}
    if room:
        assert yard.run().code == 0
        assert yard.wrong() == []


@pytest.mark.more
@pytest.mark.parametrize(
    "room",
    [48 * KIB, *(pytest.param(room, marks=pytest.mark.sweep) for room in MORE_ROOMS)],
)
@beside
def test_room_that_runs_out_on_the_way_costs_no_item(folder: Path, room: int) -> None:
    yard = Yard(folder, slugs=("a", "c"))
    limited = ("sh", "-c", f'ulimit -f {room // 512}; exec "$@"', "sh")
    filled = yard.run(prefix=limited)
    assert "Traceback" not in filled.err
    assert filled.code in (0, 1, CANNOT_RUN)
    _, undone = yard.run_until_done()
    assert undone == []
    assert yard.wrong(clean_clone=True) == []


@pytest.fixture
def as_somebody() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A folder of an ordinary user, and what runs a program as that user."""
    if os.geteuid() != 0:
        prefix: tuple[str, ...] = ()
    elif shutil.which("setpriv"):
        prefix = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
    else:
        pytest.skip("root may write everywhere, and there is no setpriv to be another user")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    try:
        yield folder, prefix
    finally:
        shutil.rmtree(folder)


def owned_by(folder: Path, user: int) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("used_before", [False, True])
def test_a_state_folder_that_may_not_be_written_is_told_before_any_agent(
    as_somebody: tuple[Path, tuple[str, ...]], used_before: bool
) -> None:
    folder, prefix = as_somebody
    yard = Yard(folder, slugs=("a",))
    yard.repo.git("config", "--global", "--add", "safe.directory", "*")
    yard.state.mkdir()
    if used_before:
        yard.run("git.before_init@2=kill")
    owned_by(folder, 1000)
    yard.state.chmod(0o555)
    refused = yard.run(prefix=prefix)
    assert refused.code == CANNOT_RUN, refused.err
    one_sentence(refused)
    assert str(yard.state) in refused.err
    assert yard.dispatched() == {}
    if not used_before:
        return
    yard.state.chmod(0o755)
    owned_by(folder, os.geteuid())
    done = yard.run()
    assert done.code == 0, done.err
    assert yard.wrong() == []
