"""Workspaces and proving trees: what agents get, what counts as theirs, what a test leaves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from driver.domain.ownership import OwnedPath
from driver.filesystem.tree import remove_tree
from driver.git.private_git import PrivateGit, Repository, open_repository
from driver.workspace.clone_context import CloneContext
from driver.workspace.clone_workspace import CloneWorkspace
from driver.workspace.root import WorkspaceError, workspace_root
from driver.workspace.setup import Preparation
from driver.workspace.test_checkouts import TreeCheckout
from state_store.documents.errors import InputError
from tests.support.interpreter import IN_SHELL, PYTHON
from tests.support.repos import (
    Checkout,
    checkout_fingerprint,
    frozen,
    hook,
    make_repo,
    user_environ,
)

pytestmark = pytest.mark.in_walls

FILES = {"a.txt": "one\n", "src/b.py": "B = 1\n", "run.sh": "#!/bin/sh\n", ".gitignore": "out/\n"}


def run_shell(
    command: str | tuple[str, ...], folder: Path, more: Mapping[str, str] | None = None
) -> str:
    shell, env = isinstance(command, str), {**os.environ, **(more or {})}
    done = subprocess.run(command, cwd=folder, shell=shell, env=env, check=False)
    return "" if done.returncode == 0 else f"it ended with {done.returncode}"


@pytest.fixture
def user(tmp_path: Path) -> Checkout:
    environ = user_environ(tmp_path / "home")
    return make_repo(tmp_path / "the user's r\u00e9po", environ, FILES)


MakeContext = Callable[..., CloneContext]


@pytest.fixture
def context_for(user: Checkout, tmp_path: Path) -> Iterator[MakeContext]:
    """Contexts of the user's repository, which must come out of it all unchanged."""

    def make(copy: tuple[str, ...] = (), setup: tuple[str, ...] = ()) -> CloneContext:
        repo = open_repository(user.path, user.environ)
        git = PrivateGit.create(tmp_path / "private", repo, user.environ)
        prepare = Preparation(copy, setup, run_shell)
        before.update(frozen(user.path))
        return CloneContext(tmp_path / "root", git, repo, prepare)

    before: dict[str, str] = {}
    yield make
    assert frozen(user.path) == before or not before


@pytest.fixture
def workspace(context_for: MakeContext) -> CloneWorkspace:
    return context_for().workspace("item-1")


def agent_in(workspace: CloneWorkspace, user: Checkout) -> Checkout:
    return Checkout(workspace.top, user.environ)


def changed(workspace: CloneWorkspace, *owned: str) -> set[str]:
    return {change.path for change in workspace.collect(owned).changes}


# What an agent gets


def test_a_clone_is_clean_on_the_users_branch_and_leads_nowhere(
    workspace: CloneWorkspace, user: Checkout
) -> None:
    agent = agent_in(workspace, user)
    assert agent.git("status", "--porcelain") == ""
    assert agent.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert agent.git("rev-parse", "HEAD") == user.git("rev-parse", "HEAD")
    assert agent.git("remote") == ""
    assert agent.git("rev-parse", "--show-toplevel") == str(workspace.top)
    assert not (workspace.top / ".git" / "hooks").exists()
    assert agent.git("fsck") == ""


def test_a_detached_head_gives_a_detached_clone(user: Checkout, context_for: MakeContext) -> None:
    user.git("checkout", "-q", "--detach")
    agent = agent_in(context_for().workspace("x"), user)
    assert agent.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert agent.git("status", "--porcelain") == ""


def test_an_untouched_clone_has_no_changes(workspace: CloneWorkspace) -> None:
    collected = workspace.collect(["src/"])
    assert (collected.tree, collected.changes) == (workspace.context.base_tree, ())


def test_what_an_agent_commits_itself_counts_the_same(
    workspace: CloneWorkspace, user: Checkout
) -> None:
    agent_in(workspace, user).commit({"src/b.py": "B = 2\n", "new.txt": "x"})
    assert changed(workspace) == {"src/b.py", "new.txt"}


def test_an_agent_that_deletes_its_git_dir_loses_nothing(workspace: CloneWorkspace) -> None:
    subprocess.run(["rm", "-rf", ".git"], cwd=workspace.top, check=True)
    (workspace.top / "a.txt").write_text("two\n")
    assert changed(workspace) == {"a.txt"}


def test_an_item_may_have_a_second_workspace_of_its_name(context_for: MakeContext) -> None:
    context = context_for()
    (context.workspace("x").top / "left.txt").write_text("over")
    again = context.workspace("x")
    assert changed(again) == set()
    again.close()
    assert not again.top.exists()


# Preparation


def test_copies_and_set_up_products_are_not_the_agents_work(
    user: Checkout, context_for: MakeContext
) -> None:
    user.write({"node/lib/x.js": "x", ".env": "A=1"})
    (user.path / "node" / "link").symlink_to("lib")
    setup = ("echo made > made.txt; echo lock > a.txt; mkdir out; echo o > out/old",)
    workspace = context_for(("node", ".env"), setup).workspace("x")
    assert (workspace.top / "node" / "link").is_symlink()
    assert (workspace.top / "node" / "lib" / "x.js").read_text() == "x"
    assert changed(workspace, "out/", "node/") == set()
    (workspace.top / "src" / "b.py").write_text("B = 2\n")
    (workspace.top / "made.txt").write_text("by the agent\n")
    (workspace.top / "out" / "new").write_text("n")
    collected = workspace.collect(["out/new", "out/old"])
    assert {c.path for c in collected.changes} == {"src/b.py", "made.txt", "out/new"}
    paths = workspace.context.git.paths_in(collected.tree)
    assert set(paths) == {*FILES, "made.txt", "out/new"}
    assert changed(workspace, "out/new") == {"src/b.py", "made.txt", "out/new"}


def test_writing_in_a_copy_never_reaches_the_users_file(
    user: Checkout, context_for: MakeContext
) -> None:
    user.write({"big.bin": "theirs"})
    workspace = context_for(("big.bin",)).workspace("x")
    with (workspace.top / "big.bin").open("r+") as file:
        file.write("MINE")
    assert (user.path / "big.bin").read_text() == "theirs"


@pytest.mark.parametrize("files", [2, 250])
@pytest.mark.parametrize("setup", [(), ("cat node/sub/new.js node/0.js > seen.txt || true",)])
def test_work_in_a_copied_folder_that_git_does_not_ignore_is_tested_with_the_rest_of_it(
    user: Checkout, context_for: MakeContext, files: int, setup: tuple[str, ...]
) -> None:
    user.write({f"node/{number}.js": "old" for number in range(files)})
    context = context_for(("node",), setup)
    on_base = {"node/0.js": "old", "node/1.js": "old"}
    workspace = context.workspace("x", owned=(OwnedPath("node/sub/new.js"),))
    assert changed(workspace, "node/sub/new.js") == set()
    (workspace.top / "node" / "sub").mkdir(exist_ok=True)
    (workspace.top / "node" / "sub" / "new.js").write_text("new")
    (workspace.top / "node" / "0.js").write_text("changed")
    collected = workspace.collect(["node/sub/new.js"])
    assert {change.path for change in collected.changes} == {"node/sub/new.js", "node/0.js"}
    of_work = {"node/0.js": "changed", "node/1.js": "old", "node/sub/new.js": "new"}
    for tree, wanted in ((collected.tree, of_work), (context.base_tree, on_base)) * 2:
        with context.test_checkout(tree) as checkout:
            found = {name: (checkout.path / name).read_text() for name in wanted}
            assert found == wanted
            assert (checkout.path / "node" / "sub").exists() == ("node/sub/new.js" in wanted)
            assert len([*(checkout.path / "node").glob("*.js")]) == files
            assert checkout.tampered() == ()
            if setup and tree == collected.tree:
                assert (checkout.path / "seen.txt").read_text() == "newchanged"
            (checkout.path / "node" / "0.js").write_text("by a test")


def test_all_wrong_copies_are_told_at_once(user: Checkout, context_for: MakeContext) -> None:
    wrong = ("missing", "../x", "/etc", ".git/config", "src", "src/b.py", "a.txt/x", "C:/x", "")
    with pytest.raises(InputError) as told:
        context_for(wrong)
    assert len(told.value.problems) == len(wrong)


def test_a_failing_set_up_is_told_and_leaves_nothing(
    context_for: MakeContext, tmp_path: Path
) -> None:
    with pytest.raises(WorkspaceError, match=r"exit 7.*ended with 7"):
        context_for(setup=("touch half; exit 7",)).workspace("x")
    assert list((tmp_path / "root" / "items").iterdir()) == []


def test_line_ends_git_would_normalise_are_not_the_agents_work(
    user: Checkout, context_for: MakeContext
) -> None:
    user.git("config", "core.autocrlf", "false")
    user.commit({"crlf.txt": b"x\r\n"})
    user.write({".gitattributes": "*.txt text\n"})
    user.git("add", ".gitattributes")
    user.git("commit", "-q", "-m", "attributes")
    workspace = context_for().workspace("x")
    assert changed(workspace) == set()
    os.utime(workspace.top / "crlf.txt", (1, 1))
    (workspace.top / "a.txt").write_text("two\n")
    assert changed(workspace) == {"a.txt"}


# Removing


def test_read_only_and_very_deep_folders_are_removed(workspace: CloneWorkspace) -> None:
    script = (
        "import os\n"
        "for n in range(1500):\n os.mkdir('deeper'); os.chdir('deeper')\n"
        "open('f', 'w').close(); os.chmod('f', 0o400); os.chmod('.', 0o500)\n"
    )
    subprocess.run([*PYTHON, "-c", script], cwd=workspace.top, check=True)
    assert changed(workspace) == set()
    workspace.close()
    workspace.close()
    assert not workspace.top.exists()


@pytest.mark.skipif(not hasattr(os, "fork") or os.geteuid() != 0, reason="needs to become a user")
def test_an_ordinary_user_can_remove_folders_without_any_rights() -> None:
    top = Path(tempfile.mkdtemp())  # tmp_path lies where only root may go
    locked = top / "t" / "locked" / "in"
    locked.mkdir(parents=True)
    (locked.parent / "file").touch(mode=0o400)
    for path in (top, *top.rglob("*")):
        os.chown(path, 65534, 65534)
    locked.chmod(0)
    locked.parent.chmod(0)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        with contextlib.suppress(OSError):
            remove_tree(top / "t")
        os._exit(0)
    os.waitpid(child, 0)
    assert list(top.iterdir()) == []
    top.rmdir()


# Test checkouts


def tree_of(workspace: CloneWorkspace, name: str, content: str) -> str:
    (workspace.top / name).parent.mkdir(exist_ok=True)
    (workspace.top / name).write_text(content)
    return workspace.collect(()).tree


def test_a_test_checkout_holds_exactly_the_tree(context_for: MakeContext) -> None:
    context = context_for()
    trees = context.pool(1)
    tree = tree_of(context.workspace("x"), "new/f.txt", "new")
    with trees.checkout(tree) as place:
        assert (place.path / "new" / "f.txt").read_text() == "new"
        assert place.tampered() == ()
    with trees.checkout(base_of(context)) as place:
        assert not (place.path / "new").exists()
    trees.close()
    assert not place.path.exists()


def base_of(context: CloneContext) -> str:
    return context.base_tree


LEFT_BEHIND: dict[str, Callable[[Path], object]] = {
    "a new file": lambda p: (p / "src" / "conftest.py").write_text("x"),
    "an ignored file": lambda p: ((p / "out").mkdir(), (p / "out" / "x").write_text("x")),
    "an empty folder": lambda p: (p / "empty").mkdir(),
    "an edit": lambda p: (p / "a.txt").write_text("two\n"),
    "a mode": lambda p: (p / "a.txt").chmod(0o755),
    "a deletion": lambda p: (p / "a.txt").unlink(),
    "a link for a folder": lambda p: ((p / "src").rename(p / "s"), (p / "src").symlink_to("s")),
    "a folder mode": lambda p: (p / "src").chmod(0o711),
    "a hook": lambda p: hook(p / ".git" / "hooks", "pre-commit", "true"),
    "a git dir elsewhere": lambda p: (
        (p / ".git").rename(p.parent / "moved"),
        (p / ".git").symlink_to("../moved"),
    ),
    "a git config": lambda p: Checkout(p, {"PATH": os.environ["PATH"]}).git("config", "a.b", "c"),
    "a nested repository": lambda p: subprocess.run(["git", "init", "-q", "n"], cwd=p, check=True),
    "a pipe": lambda p: os.mkfifo(p / "pipe"),
}


def disguised_edit(place: Path) -> None:
    before = (place / "a.txt").stat()
    with (place / "a.txt").open("r+") as file:
        file.write("0ne\n")
    os.utime(place / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))


LEFT_BEHIND["an edit with its time set back"] = disguised_edit


def without_index(files: dict[str, str]) -> dict[str, str]:
    return {name: state for name, state in files.items() if name != ".git/index"}


@pytest.mark.more
@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_nothing_a_test_leaves_is_there_for_the_next(context_for: MakeContext, what: str) -> None:
    context = context_for()
    trees, base = context.pool(1), base_of(context)
    with trees.checkout(base) as place:
        before = without_index(frozen(place.path))
        LEFT_BEHIND[what](place.path)
    with trees.checkout(base) as again:
        assert again.path == place.path
        assert without_index(frozen(again.path)) == before
        assert not (again.path / "empty").exists()
        assert not (again.path / ".git").is_symlink()
        assert not (again.path / ".git" / "hooks").exists()
        assert (again.path / "src").lstat().st_mode & 0o777 != 0o711


def test_a_tree_whose_top_was_made_read_only_is_not_used_again(context_for: MakeContext) -> None:
    context = context_for()
    trees, base = context.pool(1), base_of(context)
    with trees.checkout(base) as place:
        place.path.chmod(0o555)
    with trees.checkout(base) as again:
        assert again.path.stat().st_mode & 0o777 != 0o555


TAMPERED = ["an edit", "a mode", "a deletion", "an edit with its time set back"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", TAMPERED)
def test_a_run_that_changes_tracked_files_is_caught(context_for: MakeContext, what: str) -> None:
    context = context_for()
    with context.pool(1).checkout(base_of(context)) as place:
        LEFT_BEHIND["a new file"](place.path)
        (place.path / "src" / "b.py").write_text("B = 1\n")  # rewritten, but the same
        assert place.tampered() == ()
        LEFT_BEHIND[what](place.path)
        assert place.tampered() == ("a.txt",)


def test_set_up_is_kept_until_a_test_changes_it(
    user: Checkout, context_for: MakeContext, tmp_path: Path
) -> None:
    log = tmp_path / "setups"
    user.write({"deps/x": "x"})
    setup = (f"echo once >> {log}; mkdir out; echo o > out/built; echo lock > a.txt",)
    context = context_for(("deps",), setup)
    trees = context.pool(1)
    base = context.workspace("w").context.base_tree
    log.unlink()

    def use(action: Callable[[TreeCheckout], object]) -> Path:
        with trees.checkout(base) as place:
            assert (place.path / "out" / "built").read_text() == "o\n"
            assert (place.path / "deps" / "x").read_text() == "x"
            assert (place.path / "a.txt").read_text() == "one\n"
            action(place)
        return place.path

    first = use(lambda place: (place.path / "out" / "more").write_text("x"))
    second = use(lambda place: (place.path / "out" / "built").write_text("p\n"))
    third = use(lambda place: (place.path / "deps" / "x").unlink())
    fourth = use(lambda place: None)
    assert first == second
    assert len({second, third, fourth}) == 3
    assert log.read_text() == "once\n" * 3
    assert not first.exists()


def test_compiled_files_of_the_base_never_stand_in_for_the_tree(context_for: MakeContext) -> None:
    context = context_for(setup=(f"{IN_SHELL} -m compileall -q src",))
    with context.pool(1).checkout(base_of(context)) as place:
        assert not (place.path / "src" / "__pycache__").exists()


def test_changed_attributes_write_all_files_again(context_for: MakeContext) -> None:
    context = context_for()
    trees, base = context.pool(1), base_of(context)
    tree = tree_of(context.workspace("x"), ".gitattributes", "*.txt text eol=crlf\n")
    for shown, content in ((base, b"one\n"), (tree, b"one\r\n"), (base, b"one\n")):
        with trees.checkout(shown) as place:
            assert (place.path / "a.txt").read_bytes() == content


def test_no_more_test_checkouts_than_asked_for(context_for: MakeContext, tmp_path: Path) -> None:
    context = context_for()
    trees, base = context.pool(2), base_of(context)
    together, most, lock = [0], [0], threading.Lock()

    def use() -> None:
        for _ in range(3):
            with trees.checkout(base):
                with lock:
                    together[0] += 1
                    most[0] = max(most[0], together[0])
                with lock:
                    together[0] -= 1

    users = [threading.Thread(target=use) for _ in range(5)]
    for one in users:
        one.start()
    for one in users:
        one.join()
    assert most[0] <= 2
    assert len(list((tmp_path / "root" / "proving").iterdir())) <= 2
    trees.close()
    assert list((tmp_path / "root" / "proving").iterdir()) == []


def test_a_bad_tree_does_not_cost_a_place(context_for: MakeContext) -> None:
    context = context_for()
    trees = context.pool(1)
    for _ in range(2):
        with pytest.raises(Exception, match="read-tree"), trees.checkout("1" * 40):
            pass
    with trees.checkout(base_of(context)) as place:
        assert (place.path / "a.txt").exists()


# Where


@pytest.fixture
def repo(user: Checkout) -> Repository:
    return open_repository(user.path, user.environ)


@pytest.mark.skipif(sys.platform != "linux", reason="each system has its own cache folder")
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "{tmp}/h"}, "{tmp}/h/.cache/tidegate"),
        ({"HOME": "{tmp}/h", "XDG_CACHE_HOME": "{tmp}/c"}, "{tmp}/c/tidegate"),
        ({"TMPDIR": "{tmp}/t"}, "{tmp}/t/tidegate-{uid}/tidegate"),
    ],
)
def test_workspaces_go_to_the_users_cache(
    repo: Repository, tmp_path: Path, environ: dict[str, str], expected: str
) -> None:
    filled = {name: value.format(tmp=tmp_path) for name, value in environ.items()}
    root = workspace_root(None, {"PATH": os.environ["PATH"], **filled}, repo)
    assert str(root.parent) == expected.format(tmp=tmp_path, uid=os.geteuid())


def test_a_workspace_folder_inside_a_checkout_is_refused(
    user: Checkout, repo: Repository, tmp_path: Path
) -> None:
    for inside in (user.path / "ws", user.path / ".git" / "ws"):
        with pytest.raises(InputError, match="choose"):
            workspace_root(inside, user.environ, repo)
    assert workspace_root(tmp_path / "ws", user.environ, repo) == tmp_path / "ws"


def test_a_home_kept_in_git_sends_workspaces_elsewhere(repo: Repository, tmp_path: Path) -> None:
    environ = {**user_environ(tmp_path / "dot" / "h"), "TMPDIR": str(tmp_path / "t")}
    home = make_repo(tmp_path / "dothome", environ, {"x": "x"})
    environ["HOME"] = str(home.path)
    assert workspace_root(None, environ, repo).is_relative_to(tmp_path / "t")


def test_the_fingerprint_agrees_that_nothing_happened(
    user: Checkout, repo: Repository, context_for: MakeContext
) -> None:
    before = checkout_fingerprint(repo, user.environ)
    context = context_for()
    agent_in(context.workspace("x"), user).commit({"a.txt": "two"})
    assert before.differences(checkout_fingerprint(repo, user.environ)) == ()
