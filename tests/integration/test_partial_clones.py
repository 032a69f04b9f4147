"""Clones of backends that only answer with files have only the files that their items own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driver.domain.ownership import OwnedPath
from driver.git.private_git import PrivateGit, open_repository
from driver.workspace.clone_context import CloneContext
from driver.workspace.clone_workspace import CloneWorkspace
from driver.workspace.partial_clones import PartialCloneContext
from driver.workspace.setup import Preparation
from tests.support.repos import Checkout, make_repo, user_environ
from tests.support.waves import Agent, Scene, ScriptedDriver, item

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="small trees are Linux only")
MANY = {f"data/{number % 10}/{number}": f"{number}\n" for number in range(510)}
FILES = {**MANY, "src/a.py": "A = 1\n", "src/pkg/b.py": "B = 1\n", ".gitignore": "*.log\n"}
OWNED = (OwnedPath("src/a.py"), OwnedPath("new/made.py"), OwnedPath("data/3", is_dir=True))

MakeContext = Callable[..., CloneContext]


@pytest.fixture
def user(tmp_path: Path) -> Checkout:
    made = make_repo(tmp_path / "user", user_environ(tmp_path / "home"), FILES)
    (made.path / "out").symlink_to("/etc")
    made.git("add", "out")
    made.git("commit", "-qm", "a link")
    return made


@pytest.fixture
def context_of(user: Checkout, tmp_path: Path) -> Iterator[MakeContext]:
    made = list[CloneContext]()

    def make(kind: type[CloneContext], prepare: Preparation | None = None) -> CloneContext:
        repo = open_repository(user.path, user.environ)
        name = str(len(made))
        git = PrivateGit.create(tmp_path / "private" / name, repo, user.environ)
        made.append(kind(tmp_path / "runs" / name, git, repo, prepare or Preparation()))
        return made[-1]

    (tmp_path / "private").mkdir()
    (tmp_path / "runs").mkdir()
    yield make
    for context in made:
        context.close()


def on_disk(workspace: CloneWorkspace) -> set[str]:
    found = (path.relative_to(workspace.top) for path in workspace.top.rglob("*"))
    return {str(path) for path in found if path.parts[0] != ".git" and not _is_folder(path)}


def _is_folder(path: Path) -> bool:
    return str(path) in {"src", "data", "data/3"}


def work(top: Path) -> None:
    (top / "src" / "a.py").write_text("A = 2\n")
    (top / "new").mkdir()
    (top / "new" / "made.py").write_text("MADE = 1\n")
    (top / "data" / "3" / "13").unlink()
    (top / "stray.log").write_text("ignored\n")
    (top / "src" / "pkg").mkdir(exist_ok=True)
    (top / "src" / "pkg" / "b.py").write_text("B = 2\n")  # not its own


def test_the_clone_has_what_the_item_owns_and_the_work_is_that_of_a_whole_clone(
    context_of: MakeContext,
) -> None:
    whole, partial = (context_of(kind) for kind in (CloneContext, PartialCloneContext))
    clones = [context.workspace("x", owned=OWNED) for context in (whole, partial)]
    threes = {path for path in FILES if path.startswith("data/3/")}
    assert on_disk(clones[1]) == {"src/a.py", ".gitignore", "out", *threes}
    assert [clone.observe().changes for clone in clones] == [(), ()]
    for clone in clones:
        work(clone.top)
    seen = [clone.observe() for clone in clones]
    assert seen[0] == seen[1]
    assert {change.path for change in seen[1].changes} == {
        *("src/a.py", "new/made.py", "data/3/13", "src/pkg/b.py"),
    }
    assert seen[1].git_traces == ()
    tree = seen[1].tree
    assert tree is not None
    with clones[1].test_checkout(tree) as checkout:
        assert (checkout.path / "data" / "4" / "4").exists()
        assert checkout.tampered() == ()
    again = partial.workspace("x", owned=OWNED)
    again.put(tree)
    assert again.observe().tree == tree
    again.forget_commits()
    again.close()
    assert not again.top.exists()


def test_work_behind_a_link_of_the_base_is_seen(context_of: MakeContext) -> None:
    clone = context_of(PartialCloneContext).workspace("x", owned=OWNED)
    (clone.top / "src" / "a.py").unlink()
    (clone.top / "src" / "a.py").symlink_to("../out/passwd")
    assert clone.observe().links_outside == ("src/a.py",)


@pytest.mark.parametrize("why", ["a set-up", "copies", "attributes", "few files", "much owned"])
def test_where_a_part_is_not_enough_the_clone_is_whole(
    user: Checkout, context_of: MakeContext, why: str
) -> None:
    prepare, owned = Preparation(), [*OWNED]
    if why == "a set-up":
        prepare = Preparation(setup=("true",), run=lambda *_: "")
    elif why == "copies":
        user.write({"deps.txt": "x"})
        prepare = Preparation(copy=("deps.txt",))
    elif why == "attributes":
        user.commit({".gitattributes": "*.py text\n"})
    elif why == "few files":
        user.git("rm", "-rq", "data/1")
        user.git("commit", "-qm", "fewer")
    else:
        owned = [OwnedPath("data", is_dir=True)]
    clone = context_of(PartialCloneContext, prepare).workspace("x", owned=owned)
    assert (clone.top / "src" / "pkg" / "b.py").exists()


class Answering(ScriptedDriver):
    """A backend whose agents start no program, and see their own files only."""

    encloses = True
    only_answers = True


@pytest.mark.parametrize("kind", [Answering, ScriptedDriver])
def test_a_wave_of_such_a_backend_has_partial_clones_and_whole_test_checkouts(
    tmp_path: Path, kind: type[ScriptedDriver]
) -> None:
    seen = list[bool]()

    def agent(one: Agent) -> None:
        seen.append((one.folder / "data" / "4" / "4").exists())
        one.write({"src/a.py": "A = 2\n"})

    scene = Scene(tmp_path, FILES)
    test = "grep -q 'A = 2' src/a.py && test -e data/4/4"
    made = item("x", "src/a.py", test, requireAdversarialReview=False)
    driver = kind({"x": agent}, environ=scene.environ)
    report = scene.run(driver, [made])
    assert report["shipped"] == ["x"], report
    assert seen == [kind is ScriptedDriver]
    changed = scene.repo.git("diff", "--name-only", "main", report["branch"]).split()
    assert changed == ["src/a.py"]
