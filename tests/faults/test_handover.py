"""Work that a killed run on one machine left: another machine goes on with it, proves it again and
ships it once. What is not what the store names is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.handovers import ONCE, SLUG, UNSHIPPED, Machines, names, shipped
from tests.support.killing import Yard
from tests.support.postgres import Server


@pytest.fixture
def machines(postgres: Server, tmp_path: Path) -> Machines:
    return Machines(postgres, tmp_path)


def is_gone_on_with(machines: Machines, yard: Yard) -> None:
    """Another run on another machine ships the work once, after it has proven it again."""
    machines.go()
    before = machines.tested()
    ran = yard.run()
    assert shipped(yard) == ONCE, ran.err
    assert not yard.dispatched(), ran.err
    assert machines.tested() > before
    assert not names(yard)
    assert not machines.rows("SELECT slug FROM unshipped")
    for one in machines.made:
        assert one.run().code in (0, 3)
        assert shipped(one) == ONCE


def is_built_anew(machines: Machines, yard: Yard, why: str) -> None:
    machines.go()
    ran = yard.run()
    assert why in ran.err
    assert yard.dispatched()[SLUG] == 1, ran.err
    assert shipped(yard) == ONCE, ran.err
    told = [path.read_text() for path in yard.state.glob("runs/*/*/not-taken-over.txt")]
    assert len(told) == 1
    assert why in told[0]


def saved(machines: Machines) -> Yard:
    """Another machine, after the first was killed with saved work."""
    one, two = machines.make("one"), machines.make("two")
    killed = one.run("handover.noted=kill")
    assert killed.code < 0, killed.err
    assert one.dispatched()[SLUG] == 1
    return two


def test_work_that_was_saved_is_proven_and_shipped_by_another_machine(machines: Machines) -> None:
    is_gone_on_with(machines, saved(machines))


@pytest.mark.more
@pytest.mark.parametrize("fail", ["git.before_push", "git.before_update-ref@2"])
def test_proven_work_is_proven_again_and_shipped_once(machines: Machines, fail: str) -> None:
    one, two = machines.make("one"), machines.make("two")
    machines.killed_when_placed(one, f"{fail}=kill")
    assert machines.tested() > 0
    is_gone_on_with(machines, two)


@pytest.mark.more
def test_work_whose_push_arrived_is_not_shipped_again(machines: Machines) -> None:
    one, two = machines.make("one"), machines.make("two")
    machines.killed_when_placed(one, "git.after_push=kill")
    assert shipped(one) == ONCE
    for _ in range(2):
        assert two.run().code in (0, 1, 3)
        assert shipped(two) == ONCE
    assert not two.dispatched()


@pytest.mark.more
@pytest.mark.parametrize("point", ["git.after_handover", "phase.recorded"])
def test_a_kill_before_the_store_knows_the_place_costs_a_build(
    machines: Machines, point: str
) -> None:
    one, two = machines.make("one"), machines.make("two")
    assert one.run(f"{point}=kill").code < 0
    machines.go()
    ran = two.run()
    assert shipped(two) == ONCE, ran.err
    assert two.dispatched()[SLUG] == 1


@pytest.mark.more
@pytest.mark.parametrize("point", ["handover.fetched", "handover.taken"])
def test_a_kill_while_work_is_taken_over_loses_nothing(machines: Machines, point: str) -> None:
    two = saved(machines)
    assert two.run(f"{point}=kill").code < 0
    is_gone_on_with(machines, two)


def test_a_ref_with_another_commit_is_refused(machines: Machines) -> None:
    two = saved(machines)
    ref = names(two)[0]
    two.remote.git("update-ref", ref, "refs/heads/main")
    is_built_anew(machines, two, f"{ref} is at {two.remote.git('rev-parse', 'main').strip()}")


@pytest.mark.more
def test_a_commit_with_files_of_others_is_refused(machines: Machines) -> None:
    two = saved(machines)
    ref = names(two)[0]
    commit = two.remote.git("rev-parse", ref).strip()
    blob = two.remote.git("rev-parse", f"{commit}:{SLUG}.txt").strip()
    listed = two.remote.git("ls-tree", commit) + f"100644 blob {blob}\tforeign.txt\n"
    (two.folder / "listed").write_text(listed)
    script = f"git mktree < {two.folder}/listed"
    two.remote.git("config", "alias.made", f"!{script}")
    tree = two.remote.git("made").strip()
    forged = two.remote.git("commit-tree", tree, "-p", f"{commit}^", "-m", "forged").strip()
    two.remote.git("update-ref", ref, forged)
    old = machines.rows("SELECT tree FROM unshipped")[0][0]
    machines.change(
        f"UPDATE unshipped SET tree = '{tree}', commit_id = '{forged}', "
        f"entry = replace(entry, '{old}', '{tree}')"
    )
    is_built_anew(machines, two, "foreign.txt")


@pytest.mark.more
def test_work_that_is_too_large_is_refused(machines: Machines) -> None:
    saved(machines)
    small = machines.make("small", "unshipped_max = 10\n")
    is_built_anew(machines, small, "[state] unshipped_max is 10")


@pytest.mark.more
def test_work_that_the_remote_does_not_give_is_built_anew(machines: Machines) -> None:
    two = saved(machines)
    two.remote.git("update-ref", "-d", names(two)[0])
    is_built_anew(machines, two, "is at nothing")


def test_without_a_remote_for_such_refs_the_store_has_the_work(machines: Machines) -> None:
    machines.make("one").remote.git("config", "receive.hideRefs", UNSHIPPED)
    two = machines.make("two")
    killed = machines.made[0].run("handover.noted=kill")
    assert "unshipped work is not on the remote" in killed.err
    assert machines.rows("SELECT 1 FROM outputs WHERE body <> ''")
    is_gone_on_with(machines, two)


@pytest.mark.more
def test_damaged_work_in_the_store_is_refused(machines: Machines) -> None:
    machines.make("one").remote.git("config", "receive.hideRefs", UNSHIPPED)
    two = machines.make("two")
    assert machines.made[0].run("handover.noted=kill").code < 0
    machines.change("UPDATE outputs SET body = 'eJwDAAAAAAE='")
    is_built_anew(machines, two, "the store's step-")


@pytest.mark.parametrize(
    "change",
    [
        "ref = 'refs/heads/release'",
        pytest.param("ref = ref || '/../../a'", marks=pytest.mark.more),
        pytest.param("ref = ref || chr(10) || 'x'", marks=pytest.mark.more),
        pytest.param("base = '--output=seen'", marks=pytest.mark.more),
        pytest.param("base = 'HEAD'", marks=pytest.mark.more),
    ],
)
def test_a_row_that_names_no_place_of_such_work_touches_nothing(
    machines: Machines, change: str
) -> None:
    two = saved(machines)
    ref = names(two)[0]
    two.remote.git("branch", "release", "main")
    before = two.remote.git("rev-parse", "release")
    machines.change(f"UPDATE unshipped SET {change}")
    machines.go()
    ran = two.run()
    assert "names no place of such work" in ran.err
    assert shipped(two) == ONCE, ran.err
    assert two.remote.git("rev-parse", "release") == before
    assert "base" in change or names(two) == [ref]
    assert not list(two.folder.rglob("seen"))


@pytest.mark.more
@pytest.mark.parametrize("entry", ["", "[]", "{", "NaN", "[" * 100_000])
def test_a_row_with_no_entry_costs_a_build(machines: Machines, entry: str) -> None:
    two = saved(machines)
    machines.change(f"UPDATE unshipped SET entry = '{entry}'")
    machines.go()
    ran = two.run()
    assert shipped(two) == ONCE, ran.err
    assert two.dispatched()[SLUG] == 1
