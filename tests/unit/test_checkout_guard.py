"""Who is held responsible for a change, by who was at work when it was made."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from driver.checkout_guard.fingerprint import CheckoutFingerprint, can_execute_code
from driver.checkout_guard.guard import CheckoutChange, CheckoutGuard, attribution, warning
from driver.domain.ownership import OwnedPath

OWNED = (OwnedPath("a.txt"),)


class Checkout:
    """What a look sees, and how often one looked."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {"HEAD": "1"}
        self.looks = 0

    def look(self) -> CheckoutFingerprint:
        self.looks += 1
        return CheckoutFingerprint(dict(self.parts))

    def change(self, parts: Mapping[str, str]) -> None:
        self.parts |= parts


@pytest.fixture
def seen() -> Checkout:
    return Checkout()


@pytest.fixture
def guard(seen: Checkout) -> CheckoutGuard:
    return CheckoutGuard(seen.look, lambda name: name == "file ours")


def names(changes: tuple[CheckoutChange, ...]) -> list[str]:
    return [change.name for change in changes]


def test_who_was_alone_at_work_is_blamed(seen: Checkout, guard: CheckoutGuard) -> None:
    with guard.guarded("a"):
        seen.change({"file x": "1"})
        assert names(guard.changes_of("a")) == ["file x"]


def test_what_changed_before_or_after_blames_nobody(seen: Checkout, guard: CheckoutGuard) -> None:
    seen.change({"file x": "1"})
    with guard.guarded("a"):
        assert guard.changes_of("a") == ()
    seen.change({"file y": "1"})
    assert [change.suspects for change in guard.all_changes()] == [(), ()]


def test_a_change_that_is_found_later_blames_its_item_only_if_no_other_was_ever_at_work(
    guard: CheckoutGuard,
) -> None:
    """Nothing shows when an entry of the journal was changed."""
    with guard.guarded("b"):
        guard.report("state journal/b.json")
        assert names(guard.changes_of("b")) == ["state journal/b.json"]
        with guard.guarded("a"):
            pass
        guard.report("state journal/c.json")
        assert names(guard.changes_of("b")) == ["state journal/b.json"]
    assert guard.all_changes()[-1].suspects == ("a", "b")


def test_of_several_nobody_is_blamed_for_a_file_that_none_owns(
    seen: Checkout, guard: CheckoutGuard
) -> None:
    with guard.guarded("a", OWNED), guard.guarded("b"):
        seen.change({"file x": "1", "file a.txt": "1", "index": "2"})
        assert names(guard.changes_of("a")) == ["file a.txt"]
        assert guard.changes_of("b") == ()
    assert {change.suspects for change in guard.all_changes()} == {("a", "b")}


def test_of_several_all_are_blamed_for_what_may_run_a_program(
    seen: Checkout, guard: CheckoutGuard
) -> None:
    with guard.guarded("a"), guard.guarded("b"):
        seen.change({"hooks": "evil"})
        assert names(guard.changes_of("a")) == names(guard.changes_of("b")) == ["hooks"]


def test_what_was_told_once_is_held_against_nobody_again(
    seen: Checkout, guard: CheckoutGuard
) -> None:
    for value in ("1", "2"):
        with guard.guarded("a"):
            seen.change({"file x": value, "hooks": value})
            blamed = names(guard.changes_of("a"))
    assert blamed == ["hooks"]


def test_what_tidegate_writes_itself_is_no_change(seen: Checkout, guard: CheckoutGuard) -> None:
    with guard.guarded("a"):
        seen.change({"file ours": "1"})
        assert guard.changes_of("a") == ()


def test_many_who_ask_at_once_share_their_looks() -> None:
    looks, going, gone_on = [0], threading.Event(), threading.Event()

    def slow() -> CheckoutFingerprint:
        looks[0] += 1
        if looks[0] == 2:
            going.set()
            gone_on.wait(60)
        return CheckoutFingerprint({})

    guard = CheckoutGuard(slow, lambda _: False)
    first = threading.Thread(target=guard.all_changes)
    first.start()
    assert going.wait(60)
    others = [threading.Thread(target=guard.all_changes) for _ in range(20)]
    for thread in others:
        thread.start()
    while sum(thread.is_alive() for thread in others) < 20:
        pass
    gone_on.set()
    for thread in (first, *others):
        thread.join(60)
    assert looks[0] < 10


@pytest.mark.parametrize(
    ("name", "grave"),
    [
        ("hooks", True),
        ("config core.fsmonitor", True),
        ("config filter.x.clean", True),
        ("config remote.origin.url", True),
        ("config branch.main.pushremote", True),
        ("config branch.main.merge", False),
        ("config branch.a.b.vscode-merge-base", False),
        ("config remote.origin.gh-resolved", False),
        ("config remote.origin.gh-resolved.url", True),
        ("config user.name", False),
        ("config lfs.https://x/info/lfs.access", False),
        ("config lfs.customtransfer.x.path", True),
        ("config color.ui", False),
        ("config alias.st", True),
        ("info/attributes", True),
        ("info/exclude", False),
        ("objects/info/alternates", True),
        ("worktree x", False),
        ("ref refs/replace/1234", True),
        ("ref refs/heads/main", False),
        ("HEAD", False),
        ("index", False),
        ("stash", False),
        ("file hooks", False),
        ("file config core.fsmonitor", False),
    ],
)
def test_grave_is_what_may_run_a_program_or_change_what_git_shows(name: str, grave: bool) -> None:
    assert can_execute_code(name) is grave


def test_a_long_list_is_cut_and_counted() -> None:
    changes = [CheckoutChange(f"file {n:02}", ("a",), ("a",)) for n in range(14)]
    assert attribution(changes).endswith("file 09 and 4 more")
    assert warning(changes[:1]) == "changed in your checkout meanwhile (at work: a): file 00"
    assert (attribution([]), warning([])) == ("", None)
