"""A wave starts few processes of git, and what is read without one is what git says."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.checkout_guard.plain_settings import plain_settings
from driver.domain.results import Change
from driver.git.private_git import CommitSpec, PrivateGit, open_repository
from driver.git.repository import opened_again
from tests.support.programs import git
from tests.support.repos import Checkout, make_repo, user_environ
from tests.support.waves import Scene, item, writes

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere git does more of the work")
FILES = {**{f"{slug}.txt": "base\n" for slug in "abc"}, "d/e.txt": "e\n"}
_STARTED: list[str] = []


def _note(event: str, facts: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and isinstance(facts[1], list):
        _STARTED.append(" ".join(map(str, facts[1])))


@pytest.fixture
def started() -> list[str]:
    """The commands that this process starts itself, from now on."""
    if not _STARTED:
        sys.addaudithook(_note)  # which nobody can take away again
    _STARTED[:] = ["pytest"]
    return _STARTED


def of_git(started: list[str]) -> int:
    """How many are of git, without looks at a checkout: of one that changed in the last seconds, as
    here, each item takes more of them."""
    return sum(one.startswith("git ") and "/watch " not in one for one in started)


@linux
def test_a_wave_of_one_item_and_each_more_need_few_processes(
    tmp_path: Path, started: list[str]
) -> None:
    counts = []
    for slugs in ("a", "abc"):
        (tmp_path / slugs).mkdir()
        scene = Scene(tmp_path / slugs, FILES)
        steps = {slug: writes(**{f"{slug}__txt": f"good {slug}\n"}) for slug in slugs}
        items = [item(slug, f"{slug}.txt", f"grep -q good {slug}.txt") for slug in slugs]
        open_repository(scene.repo.path, scene.environ)  # git is asked for its version only once
        started.clear()
        report, _ = scene.play(steps, items)
        counts.append(of_git(started))
        assert report["shipped"] == list(slugs)
    one, three = counts
    assert (three - one) / 2 <= 4
    assert one - (three - one) / 2 <= 9  # and its version, and looks at the beginning and the end


PLAIN = [
    "[core]\n\tbare = false\n\tfileMode = true\n",
    '[remote "Or.igin"]\n  url = /a b/c\n  fetch = +refs/heads/*:refs/r/o/*\n[User]\nname=N\n',
    "# nothing\n; nothing\n\n[a]\nb = 1\n[a]\nb = 2\n[a-B]\nC-d=e",
    "[a]\nb =\n",
]
ODD = [
    '[a]\nb = "quoted"\n',
    "[a]\nb = c # a comment\n",
    "[a]\nb = c; d\n",
    "[a]\nb = c \\\n  d\n",
    "[a] b = c\n",
    "[a]\nb\n",
    "b = c\n",
    "[a.B]\nc = d\n",
    '[a "b\\"c"]\nd = e\n',
    "[a]\nb = c  d\n",
    "[a]\nb = c\td\n",
    "[a]\r\nb = c\r\n",
    "\ufeff[a]\nb = c\n",
    "[a]\nb = \u00e4\n",
]
BROKEN = ["[a\n", "[a]\n1b = c\n", "[a]\nb_c = d\n", "[a]\n= c\n", "[a_b]\nc = d\n"]


@pytest.mark.parametrize("content", [*PLAIN, *ODD, *BROKEN])
def test_plain_settings_are_what_git_lists(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content, encoding="utf-8", newline="")
    listed = ("git", "config", "--file", str(path), "--no-includes", "--list", "-z")
    done = subprocess.run(listed, capture_output=True, check=False, text=True)
    told = [record.partition("\n")[::2] for record in done.stdout.split("\0")[:-1]]
    found = plain_settings(path)
    assert found == (told if content in PLAIN else None)
    assert (done.returncode == 0) == (content not in BROKEN)


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    return make_repo(tmp_path / "repo", user_environ(tmp_path), FILES)


MOVES: dict[str, Callable[[Checkout], object]] = {
    "nothing": lambda repo: None,
    "a commit": lambda repo: repo.commit({"a.txt": "more\n"}),
    "another branch": lambda repo: repo.git("checkout", "-q", "-b", "other/one"),
    "a branch with a dot": lambda repo: repo.git("checkout", "-q", "-b", "v1.2"),
    "packed refs": lambda repo: repo.git("pack-refs", "--all"),
    "no branch": lambda repo: repo.git("checkout", "-q", "--detach"),
    "an odd HEAD": lambda repo: repo.git("symbolic-ref", "HEAD", "refs/tags/t"),
    "a branch that leads on": lambda repo: (
        repo.git("branch", "far"),
        repo.git("symbolic-ref", "refs/heads/near", "refs/heads/far"),
        repo.git("symbolic-ref", "HEAD", "refs/heads/near"),
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("linked", [False, True])
def test_a_repository_is_opened_again_as_git_shows_it(
    tmp_path: Path, repo: Checkout, move: str, linked: bool
) -> None:
    repo.git("tag", "t")
    if linked:
        repo.git("worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
        repo = Checkout(tmp_path / "linked", repo.environ)
    before = open_repository(repo.path, repo.environ)
    MOVES[move](repo)
    assert opened_again(before, repo.environ) == open_repository(repo.path, repo.environ)


def test_what_is_read_at_once_is_what_is_read_one_by_one(tmp_path: Path, repo: Checkout) -> None:
    opened = open_repository(repo.path, repo.environ)
    gits = [PrivateGit.create(tmp_path / f"{n}.git", opened, repo.environ) for n in range(2)]
    one, other = (
        git.begin(opened.head, few=few) for git, few in zip(gits, (True, False), strict=True)
    )
    assert one == other
    assert one[0] == git(repo.path, "rev-parse", "HEAD^{tree}").strip()
    for number, private in enumerate(gits):
        private.checkout(one[0], tmp_path / f"{number}", tmp_path / f"{number}.index")
        assert {path: (tmp_path / f"{number}" / path).read_text() for path in FILES} == FILES
        assert private.commit_text(opened.head) == gits[1].commit_text(opened.head)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_trees_are_those_of_the_commits(tmp_path: Path, repo: Checkout, seed: int) -> None:
    dice = random.Random(seed)
    opened = open_repository(repo.path, repo.environ)
    private = PrivateGit.create(tmp_path / "private.git", opened, repo.environ)
    private.begin(opened.head, few=True)
    names = [*FILES, "d/f/g.txt", "a.txt/below", "d", "new.txt"]
    there, specs = set(FILES), []
    for number in range(6):
        name = dice.choice(names)
        inside = {one for one in there if one.startswith(f"{name}/")}
        above = {one for one in there if name.startswith(f"{one}/")}
        blob = private.store(b"%d" % number)
        gone = {*inside, *above} | ({name} & there if dice.random() < 0.3 else set())
        changes = [Change(one, None, None, "100644", None) for one in sorted(gone)]
        there -= gone
        if name not in gone:
            changes.append(Change(name, dice.choice(("100644", "100755")), blob, None, None))
            there.add(name)
        specs.append(CommitSpec("m", tuple(changes), "n", "n@localhost", "0 +0000"))
    ours = private.trees_after(opened.head, specs)
    assert ours == tuple(one.tree for one in private.import_commits(opened.head, specs))
    for tree in ours:
        git(repo.path, f"--git-dir={private.path}", "ls-tree", "-r", tree)
