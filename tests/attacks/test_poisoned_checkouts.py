"""Test checkouts are used again: nothing that a test does to one reaches the proof of another tree.

Each way to poison a checkout is tried on the same tree and on another one. The next user must find
exactly what a checkout that nobody used has, and Python must run the tree's own code.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import py_compile
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driver.filesystem.clock import notes_all_changes
from driver.filesystem.tree import Signature
from driver.git.private_git import PrivateGit, open_repository
from driver.preparation.stat_listing import StatListing
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation
from tests.support.repos import Checkout, hook, make_repo, user_environ

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
STILL_WRITING = "a process that is still writing"
GOOD, EVIL = "VALUE = 1\n", "VALUE = 6\n"
FILES = {
    "lib/__init__.py": "",
    "lib/x.py": GOOD,
    "lib/y.py": GOOD,
    "lib/deep/er/z.py": GOOD,
    "run.sh": "#!/bin/sh\n",
    ".gitignore": "out/\n__pycache__/\n*.pyc\n",
    "empty.txt": "",
}


def files_and(more: int) -> dict[str, str]:
    return FILES | {f"data/{number % 20}/{number}.txt": f"{number}\n" for number in range(more)}


_ASKED = """
import sys
sys.path.insert(0, ".")
import json, lib.x, lib.y, lib.deep.er.z
print(lib.x.VALUE, lib.y.VALUE, lib.deep.er.z.VALUE, json.__name__)
"""


_WRITES = f"""
import sys
print(flush=True)
while True:
    try:
        with open(sys.argv[1], "r+") as file:
            file.write({EVIL!r})
    except OSError:
        pass
"""


@dataclass
class Lab:
    """A checkout `top` to poison, and a folder outside of it. `afterwards` runs when the next test
    has the checkout."""

    top: Path
    outside: Path
    cleanup: ExitStack
    afterwards: list[Callable[[], object]] = field(default_factory=list)

    def git(self, *args: str) -> None:
        Checkout(self.top, user_environ(self.outside / "home")).git(*args)


@contextmanager
def lab_in(folder: Path) -> Iterator[Lab]:
    """A lab whose `top` is set later. Files are moved out of it into a new folder in `folder`."""
    outside = Path(tempfile.mkdtemp(dir=folder))
    (outside / "home").mkdir()
    with ExitStack() as cleanup:
        yield Lab(Path(), outside, cleanup)


def disguised(path: Path, text: str = EVIL) -> None:
    """Write in place, with the old times."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path, text: str = EVIL) -> None:
    """Put another file of the same size and times in its place."""
    before, new = path.stat(), path.with_name("new")
    new.write_text(text)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(path)


def compiled(source: Path, mode: py_compile.PycInvalidationMode, *, cached: bool = True) -> None:
    """Compile evil code, and put the good source back, with the same size and second."""
    before, good = source.stat(), source.read_text()
    disguised(source)
    target = None if cached else str(source.with_suffix(".pyc"))
    py_compile.compile(str(source), cfile=target, invalidation_mode=mode, doraise=True)
    source.write_text(good)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))


def swapped(one: Path, other: Path) -> None:
    disguised(one)
    other.rename(other.with_name("third"))
    one.rename(other)
    other.with_name("third").rename(one)


def hard_linked(lab: Lab) -> None:
    """The same content, under a name outside of the checkout by which it is changed later."""
    path, other = lab.top / "lib/x.py", lab.outside / "second"
    other.write_text(GOOD)
    path.unlink()
    os.link(other, path)
    lab.afterwards.append(lambda: other.write_text(EVIL))


def named_outside(lab: Lab) -> None:
    """The file itself gets a second name outside."""
    os.link(lab.top / "lib/x.py", lab.outside / "named")
    lab.afterwards.append(lambda: (lab.outside / "named").write_text(EVIL))


def kept_open(lab: Lab) -> None:
    file = lab.cleanup.enter_context((lab.top / "lib/x.py").open("r+"))
    disguised(lab.top / "lib/x.py", GOOD)
    lab.afterwards.append(lambda: (file.seek(0), file.write(EVIL), file.flush()))


def kept_mapped(lab: Lab) -> None:
    file = lab.cleanup.enter_context((lab.top / "lib/x.py").open("r+b"))
    view = lab.cleanup.enter_context(mmap.mmap(file.fileno(), 0))
    view[8:9] = b"6"  # the page is dirty now: further writes change no time

    def write() -> None:
        view[8:9] = b"7"

    lab.afterwards.append(write)


def still_writing(lab: Lab) -> None:
    """Writes while the checkout is put back, and during the next test."""
    argv = [sys.executable, "-S", "-c", _WRITES, str(lab.top / "lib/x.py")]
    writer = lab.cleanup.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
    lab.cleanup.callback(writer.kill)
    assert writer.stdout is not None
    writer.stdout.readline()
    lab.afterwards.append(lambda: (writer.kill(), writer.wait()))


def mapped(lab: Lab, name: str) -> None:
    """Write through a mapping that was read first: in tmpfs, no time of the file changes."""
    with (lab.top / name).open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[8:9] = bytes(view[8:9]).replace(b"1", b"6").replace(b"2", b"6")


def moved_away(lab: Lab, put: Callable[[Path, Path], object]) -> None:
    away = lab.outside / "moved"
    lab.top.rename(away)
    put(away, lab.top)
    disguised(lab.top / "lib/x.py")


def git_dir(lab: Lab, put: Callable[[Path, Path], object]) -> None:
    away = lab.outside / "git"
    (lab.top / ".git").rename(away)
    (away / "config").write_text("[core]\n\tfsmonitor = touch evil\n")
    put(away, lab.top / ".git")


def written(name: str, text: str = "evil\n") -> Callable[[Lab], object]:
    def write(lab: Lab) -> None:
        path = lab.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def chmod(name: str, mode: int) -> Callable[[Lab], object]:
    return lambda lab: (lab.top / name).chmod(mode)


def times(name: str, ns: int) -> Callable[[Lab], object]:
    return lambda lab: (
        (lab.top / name).write_text(EVIL),
        os.utime(lab.top / name, ns=(ns, ns)),
    )


def linked(name: str, to: str) -> Callable[[Lab], object]:
    def link(lab: Lab) -> None:
        (lab.outside / "x.py").write_text(EVIL)
        path = lab.top / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(to.format(outside=lab.outside))

    return link


_CHECKED = py_compile.PycInvalidationMode.CHECKED_HASH
_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
_STAMPED = py_compile.PycInvalidationMode.TIMESTAMP
WAYS: dict[str, Callable[[Lab], object]] = {
    "an edit": written("lib/x.py", EVIL),
    "an edit with its times set back": lambda lab: disguised(lab.top / "lib/x.py"),
    "another file of its size and times": lambda lab: replaced(lab.top / "lib/x.py"),
    "compiled code of its size and second": lambda lab: compiled(lab.top / "lib/x.py", _STAMPED),
    "compiled code that is never checked": lambda lab: compiled(lab.top / "lib/x.py", _UNCHECKED),
    "compiled code with a right hash": lambda lab: compiled(lab.top / "lib/y.py", _CHECKED),
    "compiled code without a source": lambda lab: (
        compiled(lab.top / "lib/x.py", _STAMPED, cached=False),
        (lab.top / "lib/x.py").unlink(),
    ),
    "compiled code deep in a package": lambda lab: compiled(
        lab.top / "lib/deep/er/z.py", _UNCHECKED
    ),
    "a package in place of a module": written("lib/x/__init__.py", EVIL),
    "a module of the library's name": written("json.py", EVIL),
    "a package of the library's name": written("json/__init__.py", EVIL),
    "two files swapped": lambda lab: swapped(lab.top / "lib/x.py", lab.top / "lib/y.py"),
    "a time in the future": times("lib/x.py", 4 * 10**18),
    "a time of zero": times("lib/x.py", 0),
    "a time before 1970": times("lib/x.py", -(10**18)),
    "a mode": chmod("lib/x.py", 0o755),
    "a mode less": chmod("run.sh", 0o600),
    "a mode without rights": chmod("lib/x.py", 0),
    "a mode of another user's": chmod("run.sh", 0o6755),
    "a folder without rights": chmod("lib/deep", 0),
    "a folder that passes its group on": chmod("lib/deep", 0o2777),
    "the top without rights": chmod(".", 0),
    "the top for everybody": chmod(".", 0o777),
    "a link in place of a file": linked("lib/x.py", "{outside}/x.py"),
    "a link to a file beside it": linked("lib/x.py", "y.py"),
    "a link in place of a folder": linked("lib/deep", "{outside}"),
    "a link to nowhere": linked("lib/x.py", "nowhere"),
    "a link to the folder above": linked("lib/deep", "../.."),
    "a hard link of the same content": hard_linked,
    "a second name outside": named_outside,
    "a file that is still open": kept_open,
    "a file that is still mapped": kept_mapped,
    "a mapped file without a trace": lambda lab: mapped(lab, "lib/x.py"),
    "another mapped file": lambda lab: mapped(lab, "lib/y.py"),
    STILL_WRITING: still_writing,
    "a deletion": lambda lab: (lab.top / "lib/x.py").unlink(),
    "a folder that is gone": lambda lab: shutil.rmtree(lab.top / "lib/deep"),
    "everything that is gone": lambda lab: [
        shutil.rmtree(one) if one.is_dir() else one.unlink() for one in lab.top.iterdir()
    ],
    "a folder in place of a file": lambda lab: (
        (lab.top / "lib/x.py").unlink(),
        (lab.top / "lib/x.py").mkdir(),
    ),
    "a file in place of a folder": lambda lab: (
        shutil.rmtree(lab.top / "lib/deep"),
        (lab.top / "lib/deep").write_text("x"),
    ),
    "a pipe in place of a file": lambda lab: (
        (lab.top / "empty.txt").unlink(),
        os.mkfifo(lab.top / "empty.txt"),
    ),
    "a hole of half a gigabyte": lambda lab: os.truncate(lab.top / "empty.txt", 1 << 29),
    "a hidden file": written(".evil"),
    "an ignored file": written("out/deep/evil"),
    "an empty folder": lambda lab: (lab.top / "evil").mkdir(),
    "a conftest": written("conftest.py"),
    "a conftest deep in the tree": written("lib/deep/conftest.py"),
    "settings of a test runner": written("pytest.ini", "[pytest]\naddopts = --version\n"),
    "settings of a package": written("setup.cfg", "[tool:pytest]\n"),
    "a module that Python runs by itself": written("sitecustomize.py", "raise SystemExit\n"),
    "modules for node": written("node_modules/lib/index.js"),
    "a name with a line break": written("evil\nname"),
    "a name that is no text": lambda lab: (lab.top / os.fsdecode(b"ev\xffil")).write_text("x"),
    "a name like a pattern": written("*[e]vil?\\"),
    "a very deep folder": lambda lab: (lab.top / "/".join(["d" * 200] * 15)).mkdir(parents=True),
    "rules for git": written(".gitattributes", "* filter=evil text eol=crlf\n"),
    "rules for git deep in the tree": written("lib/.gitattributes", "* text eol=crlf\n"),
    "rules to ignore": written(".gitignore", "*\n"),
    "a nested repository": lambda lab: subprocess.run(
        ["git", "init", "-q", "n"], cwd=lab.top, check=True
    ),
    "a git dir as a file": lambda lab: git_dir(
        lab, lambda away, own: own.write_text(f"gitdir: {away}\n")
    ),
    "a git dir as a link": lambda lab: git_dir(lab, lambda away, own: own.symlink_to(away)),
    "another git dir": lambda lab: git_dir(lab, shutil.copytree),
    "no git dir": lambda lab: shutil.rmtree(lab.top / ".git"),
    "alternates": written(".git/objects/info/alternates", "/nowhere\n"),
    "a hook": lambda lab: hook(lab.top / ".git/hooks", "post-checkout", "touch evil"),
    "a filter": lambda lab: lab.git("config", "filter.evil.smudge", "touch evil"),
    "a folder of hooks": lambda lab: lab.git("config", "core.hooksPath", "/nowhere"),
    "a work tree elsewhere": lambda lab: lab.git("config", "core.worktree", "/nowhere"),
    "a common dir": written(".git/commondir", "/nowhere\n"),
    "attributes in the git dir": written(".git/info/attributes", "* eol=crlf\n"),
    "excludes in the git dir": written(".git/info/exclude", "*\n"),
    "a replaced object": written(".git/refs/replace/" + "1" * 40, "2" * 40 + "\n"),
    "a shallow file": written(".git/shallow", "1" * 40 + "\n"),
    "another HEAD": written(".git/HEAD", "ref: refs/heads/evil\n"),
    "an index of nothing": lambda lab: (lab.top / ".git/index").unlink(),
    "an index that hides a file": lambda lab: lab.git(
        "update-index", "--assume-unchanged", "lib/x.py"
    ),
    "an index that skips a file": lambda lab: lab.git(
        "update-index", "--skip-worktree", "lib/x.py"
    ),
    "a lock of the index": written(".git/index.lock"),
    "a checkout that was moved and linked": lambda lab: moved_away(
        lab, lambda away, top: top.symlink_to(away)
    ),
    "a checkout that was moved and copied": lambda lab: moved_away(
        lab, lambda away, top: shutil.copytree(away, top, symlinks=True)
    ),
}
DISK = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # seldom in memory as the others
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
ALWAYS = (STILL_WRITING, "a mapped file without a trace")
AMONG = {0: 2, 700: 6}  # other files; a sample is in the default run, for they take a while
READ_AMONG = {0: 12}


def sampled(
    names: Iterable[str], every: Mapping[Any, int], word: str, always: Container[str] = ()
) -> list[Any]:
    """Each name with each key of `every`, whose value tells which cases the default run has: every
    so many, and those of `always`; none for 0. The sweep has the others."""
    return [
        pytest.param(
            where,
            name,
            marks=() if often and (name in always or number % often == 0) else pytest.mark.sweep,
            id=f"{name}-{word}-{where}",
        )
        for where, often in every.items()
        for number, name in enumerate(names)
    ]


@dataclass
class Warm:
    """A repository with one test checkout and two trees, and what a new checkout of each has."""

    context: CloneContext
    trees: tuple[str, str]
    exact: dict[str, dict[str, str]]
    folder: Path


@pytest.fixture(scope="module")
def warm_with() -> Iterator[Callable[[int], Warm]]:
    made: dict[int, Warm] = {}

    def with_files(number: int) -> Warm:
        if number not in made:
            folder = Path(tempfile.mkdtemp(prefix="tidegate-", dir=DISK if number else MEMORY))
            left.callback(shutil.rmtree, folder)
            made[number] = warm_checkout(folder, number)
        return made[number]

    with ExitStack() as left:
        yield with_files
        for one in made.values():
            one.context.close()


def warm_checkout(folder: Path, files: int, *, copied: bool = False) -> Warm:
    environ = user_environ(folder / "home")
    user = make_repo(folder / "repo", environ, files_and(files))
    if copied:
        user.write({"deps/a.py": GOOD})
    repo = open_repository(user.path, environ)
    git = PrivateGit.create(folder / "private", repo, environ)
    context = CloneContext(folder / "root", git, repo, Preparation(("deps",) if copied else ()))
    work = context.workspace("w")
    (work.top / "lib/y.py").write_text("VALUE = 2\n")
    trees = (context.base_tree, work.collect(()).tree)
    exact: dict[str, dict[str, str]] = {}
    for tree in trees:
        with context.test_checkout(tree, fresh=True) as new:
            exact[tree] = exact_state(new.path)
    return Warm(context, trees, exact, folder)


def exact_state(top: Path) -> dict[str, str]:
    """Mode, number of names and content of everything in a checkout, and the code that Python runs.
    The index has stat data, so git tells what is in it."""
    found = {".": f"{top.lstat().st_mode:o}"}
    for folder, folders, names in os.walk(top):
        for path in (Path(folder, name) for name in (*folders, *names)):
            seen = path.lstat()
            body = b"" if path.name != "index" else None
            if stat.S_ISREG(seen.st_mode) and body is not None:
                body = path.read_bytes()
            elif stat.S_ISLNK(seen.st_mode):
                body = os.fsencode(path.readlink())
            links = 1 if stat.S_ISDIR(seen.st_mode) else seen.st_nlink
            told = hashlib.sha256(body or b"").hexdigest()
            found[os.fsdecode(path.relative_to(top))] = f"{seen.st_mode:o} {links} {told}"
    git = Checkout(top, {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"})
    found["index"] = git.git("ls-files", "-v", "-s") + git.git("status", "--porcelain")
    asked = [sys.executable, "-B", "-S", "-c", _ASKED]
    ran = subprocess.run(asked, cwd=top, capture_output=True, text=True, check=False)
    found["values"] = ran.stdout + ran.stderr
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("files", "name"), sampled(WAYS, AMONG, "among", ALWAYS))
def test_no_poison_reaches_the_next_proof(
    warm_with: Callable[[int], Warm], files: int, name: str
) -> None:
    warm = warm_with(files)
    base, other = warm.trees
    for poisoned, proven in ((base, base), (base, other), (other, base)):
        with lab_in(warm.folder) as lab:
            with warm.context.test_checkout(poisoned) as checkout:
                lab.top = checkout.path
                WAYS[name](lab)
            with warm.context.test_checkout(proven) as again:
                for act in lab.afterwards:
                    act()
                # Such a process makes the run invalid, and reaches none after its end.
                if not (name == STILL_WRITING and again.tampered()):
                    assert exact_state(again.path) == warm.exact[proven]
                    assert again.tampered() == ()


@pytest.mark.more
@pytest.mark.parametrize(("files", "name"), sampled(WAYS, READ_AMONG, "read-among"))
def test_no_poison_of_a_review_reaches_the_next_review(
    warm_with: Callable[[int], Warm], files: int, name: str
) -> None:
    warm = warm_with(files)
    base, other = warm.trees
    for poisoned, read in ((other, other), (base, other)):
        with lab_in(warm.folder) as lab:
            with warm.context.reading_copy(poisoned) as copy:
                lab.top = copy.path
                WAYS[name](lab)
            with warm.context.reading_copy(read) as again:
                for act in lab.afterwards:
                    act()
                if not (name == STILL_WRITING and again.tampered()):
                    assert exact_state(again.path) == warm.exact[read]


def test_reviews_share_a_copy_that_no_test_uses(warm_with: Callable[[int], Warm]) -> None:
    warm = warm_with(0)
    base, other = warm.trees
    with warm.context.reading_copy(base) as first, warm.context.reading_copy(base) as beside:
        assert first.path != beside.path
    with warm.context.reading_copy(other) as later, warm.context.test_checkout(other) as tested:
        assert later.path in (first.path, beside.path)
        assert tested.path.parent != later.path.parent


class LateListing(StatListing):
    """Lists a folder after another process has written there."""

    def look(self) -> Mapping[str, Signature]:
        if self.act is not None:
            self.act()
        return super().look()

    act: Callable[[], object] | None = None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["lib/y.py", "lib/x.py", "lib/evil.py", "evil"])
def test_what_is_written_before_the_listing_is_not_taken_for_the_tree(
    warm_with: Callable[[int], Warm], name: str
) -> None:
    warm = warm_with(0)
    base, other = warm.trees
    with warm.context.test_checkout(base) as checkout:
        listing = LateListing(checkout.path, without=(".git",))
        looks: list[str] = []

        def act() -> None:
            looks.append(name)
            if len(looks) == 2:  # the first look is before git writes
                (checkout.path / name).write_text(EVIL)

        listing.act = act
        checkout.listing = listing
    with warm.context.test_checkout(other) as again:
        assert len(looks) == 2
        assert again.path != checkout.path  # it was thrown away
        assert exact_state(again.path) == warm.exact[other]


@pytest.mark.more
def test_a_change_without_a_trace_in_memory_is_seen(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-", dir=MEMORY) as folder:
        probe = Path(folder, "probe")
        probe.write_text(GOOD)
        before = probe.lstat()
        with probe.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            view[8:9] = b"6" if view[8:9] == b"1" else b"1"
        no_trace = probe.lstat().st_ctime_ns == before.st_ctime_ns
        assert notes_all_changes(Path(folder, "other")) is not no_trace
        warm = warm_checkout(Path(folder), 0, copied=True)
        base, other = warm.trees
        for poisoned, proven in ((base, other), (other, base), (base, base)):
            with warm.context.test_checkout(poisoned) as checkout:
                assert checkout.tampered() == ()
                for name in ("lib/x.py", "deps/a.py"):
                    mapped(Lab(checkout.path, tmp_path, ExitStack()), name)
                assert checkout.tampered() == ("lib/x.py",)
            with warm.context.test_checkout(proven) as again:
                assert exact_state(again.path) == warm.exact[proven]
        warm.context.close()


@pytest.mark.more
def test_the_table_is_as_large_as_promised() -> None:
    print(f"\nmeasure=poisoned_checkouts ways={len(WAYS)} reached_a_proof=0 target=0")  # noqa: T201
    assert len(WAYS) >= 75
