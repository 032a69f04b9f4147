"""Clones and test checkouts are kept across waves: nothing that was done to one reaches a later
proof.

Each way to poison a checkout, and each way to poison what is noted of it, is tried between two
runs. The second run must find exactly what a new checkout has, and Python must run the tree's own
code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driver.git.private_git import PrivateGit, Repository, open_repository
from driver.preparation.kept_places import INDEX, LISTING, TREE, KeptPlaces, Limits, places_in
from driver.preparation.removal import Removal
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation
from state_store.documents.errors import CannotRunError
from tests.attacks.test_poisoned_checkouts import (
    ALWAYS,
    DISK,
    EVIL,
    GOOD,
    MEMORY,
    STILL_WRITING,
    WAYS,
    Lab,
    disguised,
    exact_state,
    files_and,
    lab_in,
    replaced,
    sampled,
)
from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="places are kept on Linux only")
MANY = 520  # so many files that a place is kept
ON = {"disk": 0, "memory": 26}  # a sample is in the default run, for they take a while


@dataclass
class Runs:
    """A repository, and what a new clone and new checkouts of two trees have."""

    folder: Path
    repo: Repository
    environ: dict[str, str]
    trees: tuple[str, ...] = ()
    exact: dict[str, dict[str, str]] = field(default_factory=dict)
    number: int = 0
    cleanup: ExitStack = field(default_factory=ExitStack)

    @property
    def places(self) -> Path:
        return self.folder / "root" / "places" / "own"

    def begin(self, *, cold: bool = False) -> CloneContext:
        """The context of the next run, in a folder of the same name as the one before."""
        self.number += 1
        for name in ("private", "root/run"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        git = PrivateGit.create(self.folder / "private", self.repo, self.environ)
        context = CloneContext(self.folder / "root" / "run", git, self.repo, Preparation())
        removal = Removal(self.folder / "removed", self.environ)
        if not cold:
            run = f"run-{self.number}"
            context.warm.kept = KeptPlaces(self.places, Limits(), run, removal.remove)
        return context

    def forget(self) -> None:
        if self.places.is_symlink() or self.places.is_file():
            self.places.unlink()
        subprocess.run(["chmod", "-R", "u+rwX", str(self.places)], check=False, capture_output=True)
        shutil.rmtree(self.places, ignore_errors=True)

    def other_tree(self, context: CloneContext) -> str:
        work = context.workspace("w")
        (work.top / "lib/y.py").write_text("VALUE = 2\n")
        return work.collect(()).tree


def runs_in(folder: Path) -> Runs:
    environ = user_environ(folder / "home")
    user = make_repo(folder / "repo", environ, files_and(MANY))
    (folder / "root").mkdir(mode=0o700)
    runs = Runs(folder, open_repository(user.path, environ), environ)
    context = runs.begin(cold=True)
    runs.trees = (context.base_tree, runs.other_tree(context))
    for tree in runs.trees:
        with context.test_checkout(tree, fresh=True) as new:
            runs.exact[tree] = exact_state(new.path)
    context.close()
    context = runs.begin(cold=True)
    runs.exact["clone"] = exact_state(context.workspace("item").top)
    context.close()
    return runs


@pytest.fixture(scope="module")
def runs_on() -> Iterator[Callable[[str], Runs]]:
    made: dict[str, Runs] = {}

    def on(where: str) -> Runs:
        if where not in made:
            folder = Path(
                tempfile.mkdtemp(prefix="tidegate-", dir={"disk": DISK}.get(where, MEMORY))
            )
            left.callback(shutil.rmtree, folder, ignore_errors=True)
            made[where] = runs_in(folder)
        return made[where]

    with ExitStack() as left:
        yield on


def after_a_test(runs: Runs, tree: str, act: Callable[[Path], object]) -> None:
    context = runs.begin()
    with context.test_checkout(tree) as checkout:
        act(checkout.path)
    context.close()


def next_test(runs: Runs, tree: str) -> tuple[dict[str, str], bool, tuple[str, ...]]:
    """What the next run's test finds, whether the checkout is warm, and what changes under it."""
    context = runs.begin()
    if tree != context.base_tree:
        assert runs.other_tree(context) == tree
    with context.test_checkout(tree) as checkout:
        found = exact_state(checkout.path), checkout.is_warm, checkout.tampered()
    context.close()
    return found


@pytest.mark.more
@pytest.mark.parametrize(("where", "name"), sampled(WAYS, ON, "on", ALWAYS))
def test_no_poison_of_a_checkout_reaches_the_next_wave(
    runs_on: Callable[[str], Runs], where: str, name: str
) -> None:
    runs = runs_on(where)
    base, other = runs.trees
    for proven in (base, other):
        runs.forget()
        with lab_in(runs.folder) as lab:

            def poison(top: Path, lab: Lab = lab) -> None:
                lab.top = top
                WAYS[name](lab)

            after_a_test(runs, base, poison)
            for act in lab.afterwards if name != STILL_WRITING else ():
                act()
            try:
                state, _, changed = next_test(runs, proven)
            except CannotRunError:  # it writes to the same path in the new run, and is noticed
                assert name == STILL_WRITING
                continue
            if not (name == STILL_WRITING and changed):
                assert state == runs.exact[proven]
                assert changed == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("where", "name"), sampled(WAYS, ON, "on"))
def test_no_poison_of_a_clone_reaches_the_next_agent(
    runs_on: Callable[[str], Runs], where: str, name: str
) -> None:
    runs = runs_on(where)
    runs.forget()
    with lab_in(runs.folder) as lab:
        context = runs.begin()
        work = context.workspace("item")
        lab.top = work.top
        WAYS[name](lab)
        work.close()
        context.close()
        again = runs.begin().workspace("item")
        for act in lab.afterwards:
            act()
        if name != STILL_WRITING:
            assert exact_state(again.top) == runs.exact["clone"]
            assert again.collect(()).changes == ()


def only(runs: Runs) -> Path:
    (place,) = (one.path for one in places_in(runs.places) if one.facts.kind == "tests")
    return place


def forged_listing(runs: Runs) -> None:
    """Evil code, noted as if Tidegate had written it."""
    place = only(runs)
    disguised(place / TREE / "lib/x.py")
    noted_again(place)


def noted_again(place: Path) -> None:
    asked = ["find", ".", "-mindepth", "1", "-path", "./.git", "-prune", "-o", "-type", "d"]
    asked += ["-printf", r"%p\0d%m\0", "-o", "-printf", r"%p\0%y%m %s %T@ %C@ %i\0"]
    listed = subprocess.run(asked, cwd=place / TREE, capture_output=True, check=True).stdout
    (place / LISTING).write_bytes(listed)


def in_index(flag: str) -> Callable[[Runs], object]:
    def act(runs: Runs) -> None:
        place = only(runs)
        disguised(place / TREE / "lib/x.py")
        noted_again(place)
        git = ["git", f"--git-dir={runs.folder}/repo/.git", f"--work-tree={place / TREE}"]
        env = {**os.environ, "GIT_INDEX_FILE": str(place / INDEX)}
        subprocess.run([*git, "update-index", flag, "lib/x.py"], env=env, check=True)

    return act


def restamped(runs: Runs) -> None:
    """Evil code with its new stat data in the index, under the old id."""
    place = only(runs)
    path = place / TREE / "lib/x.py"
    disguised(path)
    noted_again(place)
    content = bytearray((place / INDEX).read_bytes())
    at = content.index(b"lib/x.py\0") - 62
    seen = path.stat()
    times = (*divmod(seen.st_ctime_ns, 10**9), *divmod(seen.st_mtime_ns, 10**9))
    struct.pack_into(">6L", content, at, *times, seen.st_dev & 0xFFFFFFFF, seen.st_ino)
    (place / INDEX).write_bytes(content[:-20] + hashlib.sha1(content[:-20]).digest())


def with_facts(**changed: object) -> Callable[[Runs], object]:
    def act(runs: Runs) -> None:
        path = only(runs) / "place.json"
        disguised(only(runs) / TREE / "lib/x.py")
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return act


def linked_away(runs: Runs, part: str) -> None:
    """A part of a place, or all places, as a link to where somebody else can write."""
    place = {"": runs.places, "place": only(runs)}.get(part, only(runs) / part)
    away = runs.folder / "away"
    shutil.rmtree(away, ignore_errors=True)
    if away.exists():
        away.unlink()
    place.rename(away)
    place.symlink_to(away)
    for path in (away, *away.rglob("*")) if away.is_dir() else ():
        if path.name == "x.py":
            path.write_text(EVIL)


def piped(part: str) -> Callable[[Runs], object]:
    def act(runs: Runs) -> None:
        path = only(runs) / part
        path.unlink()
        os.mkfifo(path)

    return act


def of_another_user(runs: Runs) -> None:
    disguised(only(runs) / TREE / "lib/x.py")
    if os.geteuid() == 0:
        os.chown(only(runs), 65534, -1)
    else:
        only(runs).chmod(0o777)


def copied(runs: Runs) -> None:
    """A copy of the whole place, in which the evil code lies since before."""
    place = only(runs)
    shutil.copytree(place, runs.folder / "copy", symlinks=True)
    disguised(runs.folder / "copy" / TREE / "lib/x.py")
    shutil.rmtree(place)
    (runs.folder / "copy").rename(place)


def default_rights(runs: Runs) -> None:
    """A folder whose new files everybody may write."""
    acl = struct.pack("<L", 2) + b"".join(
        struct.pack("<HHL", tag, 7, 0xFFFFFFFF) for tag in (0x01, 0x04, 0x20)
    )
    folder = only(runs) / TREE / "lib"
    try:
        os.setxattr(folder, "system.posix_acl_default", acl)
    except OSError:
        pytest.skip("no access lists here")
    (folder / "x.py").unlink()


NOTES: dict[str, Callable[[Runs], object]] = {
    "a forged listing": forged_listing,
    "a forged index": restamped,
    "an index that hides a file": in_index("--assume-unchanged"),
    "an index that skips a file": in_index("--skip-worktree"),
    "an index without a file": in_index("--force-remove"),
    "no index": lambda runs: (only(runs) / INDEX).write_bytes(b""),
    "an empty listing": lambda runs: (only(runs) / LISTING).write_bytes(b""),
    "a listing that is no listing": lambda runs: (only(runs) / LISTING).write_bytes(b"\xff" * 99),
    "a listing that never ends": piped(LISTING),
    "an index that never ends": piped(INDEX),
    "facts that never end": piped("place.json"),
    "facts of another kind": with_facts(size="x", identity=None),
    "facts of another folder": with_facts(identity=[1, 2, 3, 4]),
    "facts of another tree": with_facts(tree="--upload-pack=touch evil"),
    "all places as a link": lambda runs: linked_away(runs, ""),
    "a place as a link": lambda runs: linked_away(runs, "place"),
    "a tree as a link": lambda runs: linked_away(runs, TREE),
    "an index as a link": lambda runs: linked_away(runs, INDEX),
    "a listing as a link": lambda runs: linked_away(runs, LISTING),
    "places that all may write": lambda runs: runs.places.chmod(0o777),
    "a place of another user": of_another_user,
    "a copied place": copied,
    "a folder with rights for all": default_rights,
    "evil code in a waiting place": lambda runs: disguised(only(runs) / TREE / "lib/x.py"),
    "another file in a waiting place": lambda runs: replaced(only(runs) / TREE / "lib/x.py"),
    "a git dir in a waiting place": lambda runs: (only(runs) / TREE / ".git" / "hooks").mkdir(
        parents=True
    ),
    "a locked folder in a waiting place": lambda runs: (only(runs) / TREE / "lib").chmod(0),
}


@pytest.mark.more
@pytest.mark.parametrize(("where", "name"), sampled(NOTES, ON, "on"))
def test_no_poison_of_a_waiting_place_reaches_the_next_wave(
    runs_on: Callable[[str], Runs], where: str, name: str
) -> None:
    runs = runs_on(where)
    for proven in runs.trees:
        runs.forget()
        after_a_test(runs, runs.trees[0], Path.exists)
        NOTES[name](runs)
        state, _, changed = next_test(runs, proven)
        assert state == runs.exact[proven]
        assert changed == ()


def test_a_file_that_comes_after_a_place_was_compared_with_its_tree_is_noticed(
    runs_on: Callable[[str], Runs],
) -> None:
    runs, late = runs_on("memory"), list[Path]()
    base = runs.trees[0]
    runs.forget()
    after_a_test(runs, base, Path.exists)
    context, is_over = runs.begin(), False

    def write(event: str, arguments: tuple[object, ...]) -> None:
        """Write a file right after the place was compared, when its listing is noted."""
        if is_over or late or event != "open" or "w" not in str(arguments[1]):
            return
        if str(arguments[0]).endswith(f"/{LISTING}"):
            late.append(context.folder / "proving" / "1" / "lib" / "late.py")
            late[0].write_text("raise SystemExit(0)\n")

    sys.addaudithook(write)
    try:
        with context.test_checkout(base) as checkout:
            state = exact_state(checkout.path)
    finally:
        is_over = True
    context.close()
    assert late
    assert state == runs.exact[base]


@pytest.mark.more
@pytest.mark.parametrize(
    "where", [pytest.param("disk", marks=pytest.mark.sweep), pytest.param("memory")]
)
def test_an_honest_place_is_used_again(runs_on: Callable[[str], Runs], where: str) -> None:
    runs = runs_on(where)
    for proven in runs.trees:
        runs.forget()
        after_a_test(runs, runs.trees[0], lambda top: (top / "lib/x.py").write_text(GOOD))
        state, is_warm, changed = next_test(runs, proven)
        assert is_warm
        assert state == runs.exact[proven]
        assert changed == ()


@pytest.mark.more
def test_two_runs_never_share_a_place(runs_on: Callable[[str], Runs]) -> None:
    runs = runs_on("memory")
    runs.forget()
    after_a_test(runs, runs.trees[0], Path.exists)
    context = runs.begin()
    kept = context.warm.kept
    assert kept is not None
    into = runs.folder / "into"
    first = kept.take("tests", runs.trees[0], into, of_this_run=False)
    other = KeptPlaces(runs.places, Limits(), "other", shutil.rmtree)
    assert first is not None
    assert other.take("tests", runs.trees[0], runs.folder / "there", of_this_run=False) is None
    context.close()


_TAKES = """
import sys, time
from pathlib import Path
from driver.preparation.kept_places import KeptPlaces, Limits
folder, into = map(Path, sys.argv[1:])
place = KeptPlaces(folder, Limits(), "killed", print).take("tests", "", into, of_this_run=False)
print(place.path, flush=True)
time.sleep(600)
"""


@pytest.mark.more
def test_a_killed_run_leaves_no_lock_and_shares_nothing(runs_on: Callable[[str], Runs]) -> None:
    runs = runs_on("memory")
    runs.forget()
    context = runs.begin()
    context.checkouts = context.pool(2)
    with context.test_checkout(runs.trees[0]), context.test_checkout(runs.trees[0]):
        pass
    context.close()
    assert len(places_in(runs.places)) == 2
    argv = [sys.executable, "-c", _TAKES, str(runs.places), str(runs.folder / "killed")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        taken = Path(other.stdout.readline().strip())
        other.kill()
    assert taken.is_dir()
    assert len(places_in(runs.places)) == 1
    for _ in range(2):
        state, _, changed = next_test(runs, runs.trees[0])
        assert (state, changed) == (runs.exact[runs.trees[0]], ())
    assert taken.is_dir()  # it stays where it is until the folder of the run goes


@pytest.mark.more
def test_the_places_are_bounded(runs_on: Callable[[str], Runs]) -> None:
    runs = runs_on("memory")
    for limits, left in ((Limits(places=2), 2), (Limits(size=1), 0), (Limits(age_s=0), 0)):
        runs.forget()
        context = runs.begin()
        context.warm.kept = KeptPlaces(runs.places, limits, "bounded", shutil.rmtree)
        for work in [context.workspace(f"item-{number}") for number in range(4)]:
            work.close()
        context.close()
        assert len(places_in(runs.places)) == left


def test_the_table_is_as_large_as_promised() -> None:
    ways = len(WAYS) + len(NOTES)
    print(f"\nmeasure=poisoned_places ways={ways} reached_a_proof=0 target=0")  # noqa: T201
    assert ways >= 100
    assert stat.S_ISDIR(Path(tempfile.gettempdir()).stat().st_mode)
