"""The git verbs on real repositories: reading the user's, building and publishing from ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.domain.results import Change
from driver.git.branch_view import BranchView
from driver.git.private_git import (
    CommitSpec,
    GitError,
    OversizeError,
    PrivateGit,
    Repository,
    exclude_from_status,
    fast_forward,
    find_remote,
    open_repository,
    toplevel_of,
)
from state_store.documents.errors import CannotRunError, InputError
from tests.support.repos import (
    Checkout,
    checkout_fingerprint,
    frozen,
    hook,
    make_bare,
    make_repo,
    user_environ,
)

ODD = ["with space", 'quo"te\\', "\u00fcmlaut/\u00e9.txt", "-dash", "line\nbreak", ":(top)x", "*"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return user_environ(tmp_path / "home")


@pytest.fixture
def user(tmp_path: Path, environ: dict[str, str]) -> Checkout:
    return make_repo(tmp_path / "user", environ, {"a.txt": "one\n", "d/b.txt": "two\n"})


@pytest.fixture
def repo(user: Checkout) -> Repository:
    return open_repository(user.path, user.environ)


@pytest.fixture
def git(tmp_path: Path, repo: Repository, environ: dict[str, str]) -> PrivateGit:
    return PrivateGit.create(tmp_path / "private", repo, environ)


class Place:
    """A work tree of the private git dir."""

    def __init__(self, git: PrivateGit, repo: Repository, folder: Path) -> None:
        self.git, self.base = git, git.tree_of(repo.head)
        self.path, self.index = folder, folder.with_suffix(".index")
        git.checkout(self.base, self.path, self.index)

    def collect(self, *owned: str) -> dict[str, Change]:
        tree = self.git.collect(self.path, self.index, owned)
        return {change.path: change for change in self.git.changes(self.base, tree)}


@pytest.fixture
def place(git: PrivateGit, repo: Repository, tmp_path: Path) -> Place:
    return Place(git, repo, tmp_path / "work")


def spec(*changes: Change, message: str = "m") -> CommitSpec:
    return CommitSpec(message, changes, "Bot", "bot@example.org", "1700000000 +0000")


def commit_of(place: Place, base: str, message: str = "m") -> str:
    made = place.git.import_commits(base, [spec(*place.collect().values(), message=message)])
    return made[0].commit


# The user's repository


def test_a_checkout_is_found_from_any_folder_in_it(user: Checkout) -> None:
    repo = open_repository(user.path / "d", user.environ)
    assert (repo.top, repo.git_dir) == (user.path, user.path / ".git")
    assert (repo.branch, repo.head) == ("main", user.git("rev-parse", "HEAD"))
    assert (repo.object_format, repo.shallow) == ("sha1", False)


def test_a_detached_head_has_no_branch(user: Checkout) -> None:
    user.git("checkout", "-q", "--detach")
    assert open_repository(user.path, user.environ).branch is None


def test_a_linked_worktree_shares_the_objects(user: Checkout, tmp_path: Path) -> None:
    user.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    repo = open_repository(tmp_path / "linked", user.environ)
    assert (repo.top, repo.branch) == (tmp_path / "linked", "side")
    assert repo.objects == user.path / ".git" / "objects"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda p: None, "is not a folder"),
        (lambda p: p.mkdir(), "not inside a git repository"),
        (lambda p: subprocess.run(["git", "init", "-q", "--bare", p], check=True), "bare"),
        (lambda p: subprocess.run(["git", "init", "-q", p], check=True), "no commit yet"),
    ],
)
def test_what_is_no_usable_checkout_is_told_in_one_sentence(
    tmp_path: Path, environ: dict[str, str], make: Callable[[Path], object], told: str
) -> None:
    make(tmp_path / "x")
    with pytest.raises(InputError, match=told):
        open_repository(tmp_path / "x", environ)


def test_a_missing_git_is_told(user: Checkout, tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="git was not found"):
        open_repository(user.path, {"PATH": str(tmp_path)})


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to change owner")
def test_a_repository_of_another_user_comes_with_the_remedy(user: Checkout) -> None:
    os.chown(user.path, 12345, 12345)
    with pytest.raises(CannotRunError, match=r"safe\.directory"):
        open_repository(user.path, user.environ)
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"}
    trusted["GIT_CONFIG_VALUE_0"] = str(user.path)
    assert open_repository(user.path, {**user.environ, **trusted}).top == user.path
    assert toplevel_of(user.path, user.environ) == user.path


def test_the_top_of_a_path_not_made_yet_is_known(user: Checkout, tmp_path: Path) -> None:
    assert toplevel_of(user.path / "no" / "such", user.environ) == user.path
    assert toplevel_of(tmp_path / "no" / "such", user.environ) is None


def test_excluding_a_pattern_twice_adds_one_line(user: Checkout, repo: Repository) -> None:
    for _ in range(2):
        exclude_from_status(repo, "/.tidegate/")
    user.write({".tidegate/x": "1"})
    assert user.git("status", "--porcelain") == ""
    text = (user.path / ".git" / "info" / "exclude").read_text()
    assert text.count(".tidegate") == 1


CHANGES_TO_THE_CHECKOUT: dict[str, Callable[[Checkout], object]] = {
    "HEAD": lambda u: u.git("commit", "-q", "--allow-empty", "-m", "x"),
    "branch": lambda u: u.git("checkout", "-q", "-b", "other"),
    "config some.thing": lambda u: u.git("config", "some.thing", "y"),
    "hooks": lambda u: hook(u.path / ".git/hooks", "pre-commit", "true"),
    "file a.txt": lambda u: u.write({"a.txt": "1ne\n"}),
    "file new.txt": lambda u: u.write({"new.txt": "new\n"}),
    "file dirty.txt": lambda u: u.write({"dirty.txt": "more\n"}),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CHANGES_TO_THE_CHECKOUT)
def test_each_change_of_the_users_checkout_is_named(
    user: Checkout, repo: Repository, name: str
) -> None:
    user.write({"dirty.txt": "some\n"})
    before = checkout_fingerprint(repo, user.environ)
    assert before.differences(checkout_fingerprint(repo, user.environ)) == ()
    CHANGES_TO_THE_CHECKOUT[name](user)
    others = {"ref refs/heads/main"} if name == "branch" else set()
    assert set(before.differences(checkout_fingerprint(repo, user.environ))) == {name} | others


def test_a_staged_change_and_a_stash_are_differences(user: Checkout, repo: Repository) -> None:
    before = checkout_fingerprint(repo, user.environ)
    user.write({"a.txt": "staged\n"})
    user.git("add", "a.txt")
    assert before.differences(checkout_fingerprint(repo, user.environ)) == ("index",)
    user.git("stash", "-q")
    assert "stash" in before.differences(checkout_fingerprint(repo, user.environ))


def test_an_editor_refreshing_the_index_is_no_difference(user: Checkout, repo: Repository) -> None:
    os.utime(user.path / "a.txt", (1, 1))
    before = checkout_fingerprint(repo, user.environ)
    bytes_before = (user.path / ".git/index").read_bytes()
    user.git("status")
    assert (user.path / ".git/index").read_bytes() != bytes_before
    assert before.differences(checkout_fingerprint(repo, user.environ)) == ()


def test_files_the_user_ignores_everywhere_are_no_difference(
    user: Checkout, repo: Repository, tmp_path: Path
) -> None:
    user.write({"../home/.config/git/ignore": "*.swp\n"})
    before = checkout_fingerprint(repo, user.environ)
    user.write({"x.swp": "editing"})
    assert before.differences(checkout_fingerprint(repo, user.environ)) == ()


# Collecting


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ODD)
def test_odd_names_come_back_as_they_are(place: Place, repo: Repository, name: str) -> None:
    (place.path / name).parent.mkdir(exist_ok=True)
    (place.path / name).write_text("odd\n")
    change = place.collect()[name]
    assert (change.mode, change.base_mode) == ("100644", None)
    assert place.git.blob(change.blob or "") == b"odd\n"
    commit = commit_of(place, repo.head)
    assert name in place.git.paths_in(place.git.tree_of(commit))


def test_edits_deletions_modes_and_links_are_seen(place: Place) -> None:
    (place.path / "a.txt").chmod(0o755)
    (place.path / "d" / "b.txt").unlink()
    (place.path / "link").symlink_to("/etc/passwd")
    found = place.collect()
    assert (found["a.txt"].mode, found["a.txt"].base_mode) == ("100755", "100644")
    assert found["d/b.txt"].deleted
    assert found["link"].mode == "120000"
    assert place.git.blob(found["link"].blob or "") == b"/etc/passwd"


def test_owned_files_are_seen_even_where_ignored_and_the_rule_is_told(place: Place) -> None:
    for name in ("dist/x.js", "dist/deep/y.js", "one.log", "other.log"):
        (place.path / name).parent.mkdir(parents=True, exist_ok=True)
        (place.path / name).write_text("made\n")
    (place.path / ".gitignore").write_text("dist/\n*.log\n")
    found = place.collect("dist/", "dist/x.js", "one.log", "missing.txt", "nowhere/")
    assert set(found) == {".gitignore", "dist/x.js", "one.log"}
    told = place.git.ignored(place.path, place.index, ["dist/x.js", "one.log", "a.txt", "dist/"])
    assert told == {
        "dist/x.js": ".gitignore:1 dist/",
        "one.log": ".gitignore:2 *.log",
        "dist/": ".gitignore:1 dist/",
    }


def test_files_and_folders_may_trade_places(place: Place) -> None:
    (place.path / "a.txt").unlink()
    (place.path / "a.txt").mkdir()
    (place.path / "a.txt" / "in").write_text("x")
    (place.path / "d" / "b.txt").unlink()
    (place.path / "d").rmdir()
    (place.path / "d").write_text("file")
    found = place.collect()
    assert {name for name, change in found.items() if change.deleted} == {"a.txt", "d/b.txt"}
    assert {name for name, change in found.items() if not change.deleted} == {"a.txt/in", "d"}


def test_a_folder_replaced_by_a_link_does_not_bring_in_what_it_points_to(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.txt").write_text("secret\n")
    (place.path / "d" / "b.txt").unlink()
    (place.path / "d").rmdir()
    (place.path / "d").symlink_to(tmp_path / "outside")
    found = place.collect("d/", "d/b.txt")
    assert found["d/b.txt"].deleted
    assert found["d"].mode == "120000"


def test_pipes_never_hang_and_never_count(place: Place) -> None:
    os.mkfifo(place.path / "pipe")
    (place.path / "a.txt").unlink()
    os.mkfifo(place.path / "a.txt")
    found = place.collect("pipe", "a.txt")
    assert set(found) == {"a.txt"}
    assert found["a.txt"].deleted


@pytest.mark.parametrize("committed", [False, True])
def test_a_nested_repository_shows_as_one(place: Place, committed: bool) -> None:
    nested = Checkout(place.path / "sub", place.git.environ)
    nested.path.mkdir()
    nested.git("init", "-q")
    if committed:
        nested.commit({"x": "x"})
    for _ in range(2):
        assert [c.mode for c in place.collect().values()] == ["160000"]


def test_a_submodules_empty_folder_is_no_change(user: Checkout, tmp_path: Path) -> None:
    head = user.git("rev-parse", "HEAD")
    user.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    user.git("commit", "-q", "-m", "a submodule")
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    place = Place(git, repo, tmp_path / "work")
    assert place.collect() == {}
    (place.path / "sub").rmdir()
    assert place.collect()["sub"].deleted


def test_a_huge_file_is_refused_before_it_is_read(place: Place) -> None:
    with (place.path / "huge").open("wb") as huge:
        huge.truncate(20 << 30)
    with pytest.raises(OversizeError, match="huge"):
        place.collect()


def test_line_ends_are_stored_as_everyone_else_will_get_them(place: Place) -> None:
    (place.path / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (place.path / "new.txt").write_bytes(b"x\r\ny\r\n")
    assert place.git.blob(place.collect()["new.txt"].blob or "") == b"x\ny\n"


def test_switching_back_leaves_only_untracked_files(place: Place) -> None:
    (place.path / "a.txt").write_text("changed")
    (place.path / "d" / "b.txt").unlink()
    (place.path / "keep.me").write_text("untracked")
    place.git.switch(place.base, place.path, place.index)
    assert (place.path / "a.txt").read_text() == "one\n"
    assert set(place.collect()) == {"keep.me"}


def test_tampering_is_seen_whatever_the_stat_data_says(place: Place) -> None:
    assert place.git.tampered(place.path, place.index) == ()
    (place.path / "a.txt").write_text("1ne\n")
    assert place.git.tampered(place.path, place.index) == ("a.txt",)
    assert place.git.tampered(place.path, place.index, ["a.txt", "d/b.txt"]) == ("a.txt",)
    (place.path / "a.txt").write_text("one\n")
    assert place.git.tampered(place.path, place.index, ["a.txt"]) == ()


def test_a_patch_shows_text_that_attributes_would_hide(place: Place) -> None:
    (place.path / ".gitattributes").write_text("* -diff\n")
    (place.path / "a.txt").write_text("hidden line\n")
    tree = place.git.collect(place.path, place.index, ())
    assert b"+hidden line" in place.git.patch(place.base, tree)


# Commits


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_a_chain_of_commits_adds_up(tmp_path: Path, environ: dict[str, str], form: str) -> None:
    files = {"a.txt": "one\n", "gone/x": "x"}
    user = make_repo(tmp_path / "\u00fc ser", environ, files, f"--object-format={form}")
    repo = open_repository(user.path, environ)
    git = PrivateGit.create(tmp_path / "private", repo, environ)
    place = Place(git, repo, tmp_path / "work")
    (place.path / "gone" / "x").unlink()
    (place.path / "gone").rmdir()
    (place.path / "gone").write_text("now a file")
    step_one = tuple(place.collect().values())
    middle = git.tree_with(place.base, step_one)
    (place.path / 'n "ew\n').write_text("x")
    step_two = git.changes(middle, git.collect(place.path, place.index, ()))
    made = git.import_commits(repo.head, [spec(*step_one), spec(*step_two, message="zwei \u00fc")])
    assert made[0].tree == middle
    assert made[1].tree == git.collect(place.path, place.index, ()) == git.tree_of(made[1].commit)
    git.create_ref(repo, made[1].commit, "refs/heads/wave")
    assert user.git("log", "-1", "--format=%s %an %ae %at", "wave") == (
        "zwei \u00fc Bot bot@example.org 1700000000"
    )
    assert user.git("rev-parse", "wave~2") == repo.head
    user.git("fsck", "--strict")


def test_a_shallow_clone_can_be_worked_on(
    user: Checkout, tmp_path: Path, environ: dict[str, str]
) -> None:
    user.commit({"a.txt": "later\n"})
    url = user.path.as_uri()
    user.git("clone", "-q", "--depth=1", url, str(tmp_path / "shallow"))
    repo = open_repository(tmp_path / "shallow", environ)
    assert repo.shallow
    place = Place(PrivateGit.create(tmp_path / "private", repo, environ), repo, tmp_path / "work")
    (place.path / "a.txt").write_text("even later\n")
    place.git.create_ref(repo, commit_of(place, repo.head), "refs/heads/wave")
    shallow = Checkout(repo.top, environ)
    assert shallow.git("show", "wave:a.txt") == "even later"


# Keeping and forwarding


def test_keeping_creates_a_ref_and_touches_nothing_else(
    user: Checkout, repo: Repository, place: Place
) -> None:
    hook(user.path / ".git/hooks", "reference-transaction", f"touch {user.path}/HOOKED")
    (place.path / "a.txt").write_text("new\n")
    commit = commit_of(place, repo.head)
    before = frozen(user.path)
    for _ in range(2):
        place.git.create_ref(repo, commit, "refs/heads/wave")
    after = frozen(user.path)
    added = {name for name in after if name not in before}
    assert added == {".git/refs/heads/wave", ".git/logs/refs/heads/wave"}
    assert {name: after[name] for name in before} == before


def test_keeping_never_moves_a_ref(user: Checkout, repo: Repository, place: Place) -> None:
    user.git("branch", "wave")
    (place.path / "a.txt").write_text("new\n")
    with pytest.raises(GitError, match="already exists"):
        place.git.create_ref(repo, commit_of(place, repo.head), "refs/heads/wave")
    assert user.git("rev-parse", "wave") == repo.head


def test_a_fast_forward_keeps_uncommitted_work(
    user: Checkout, repo: Repository, place: Place
) -> None:
    hook(user.path / ".git/hooks", "post-merge", f"touch {user.path}/HOOKED")
    (place.path / "a.txt").write_text("new\n")
    commit = commit_of(place, repo.head)
    place.git.create_ref(repo, commit, "refs/heads/wave")
    user.write({"d/b.txt": "mine\n", "untracked": "u"})
    assert fast_forward(repo, commit, user.environ) == ""
    assert (user.path / "a.txt").read_text() == "new\n"
    assert user.git("status", "--porcelain") == "M d/b.txt\n?? untracked"


def test_a_fast_forward_over_uncommitted_work_is_refused(
    user: Checkout, repo: Repository, place: Place
) -> None:
    (place.path / "a.txt").write_text("new\n")
    commit = commit_of(place, repo.head)
    place.git.create_ref(repo, commit, "refs/heads/wave")
    user.write({"a.txt": "mine\n"})
    before = frozen(user.path)
    assert "local changes" in fast_forward(repo, commit, user.environ)
    after = frozen(user.path)
    assert {k: after[k] for k in before} == before


# Remotes


def test_the_remote_is_chosen_as_the_user_would(user: Checkout, repo: Repository) -> None:
    environ = user.environ
    assert find_remote(repo, environ) is None
    user.git("remote", "add", "only", "https://example.org/only.git")
    assert find_remote(repo, environ).name == "only"  # type: ignore[union-attr]
    user.git("remote", "add", "origin", "../up.git")
    user.git("config", "url.https://short.example/.insteadOf", "sh:")
    user.git("remote", "add", "third", "sh:x.git")
    found = find_remote(repo, environ)
    assert found is not None
    assert (found.name, found.url) == ("origin", str(user.path / "../up.git"))
    user.git("config", "branch.main.remote", "third")
    user.git("config", "http.extraHeader", "canary")
    found = find_remote(repo, environ)
    assert found is not None
    assert (found.name, found.url) == ("third", "https://short.example/x.git")
    assert ("http.extraheader", "canary") in found.config
    assert "canary" not in repr(found)
    with pytest.raises(InputError, match="no remote named nope"):
        find_remote(repo, environ, "nope")


@pytest.fixture
def bare(tmp_path: Path, user: Checkout, environ: dict[str, str]) -> Checkout:
    made = make_bare(tmp_path / "remote.git", environ)
    user.git("remote", "add", "origin", str(made.path))
    user.git("push", "-q", "origin", "main")
    return made


@pytest.mark.more
def test_a_push_creates_repeats_and_moves_on(
    bare: Checkout, repo: Repository, place: Place
) -> None:
    remote = find_remote(repo, place.git.environ)
    assert remote is not None
    (place.path / "a.txt").write_text("new\n")
    one = commit_of(place, repo.head)
    assert place.git.push(remote, one, "wave/1", None).ok
    assert place.git.push(remote, one, "wave/1", None).ok
    assert bare.git("rev-parse", "wave/1") == one
    two = commit_of(place, one, "next")
    assert place.git.push(remote, two, "wave/1", one).ok
    assert bare.git("rev-parse", "wave/1") == two


@pytest.mark.more
def test_a_branch_view_knows_both_sides_and_writes_on_neither(
    bare: Checkout, user: Checkout, repo: Repository, place: Place
) -> None:
    remote = find_remote(repo, place.git.environ)
    (place.path / "a.txt").write_text("new\n")
    ahead = commit_of(place, repo.head)
    assert remote is not None
    assert place.git.push(remote, ahead, "main", repo.head).ok
    before = (frozen(user.path), frozen(bare.path))
    other = PrivateGit.create(place.path.parent / "other", repo, user.environ)
    view = BranchView(repo, user.environ, remote, other)
    assert (view.tip("main"), view.remote_tip("main")) == (repo.head, ahead)
    assert (view.tip("gone"), view.remote_tip("gone")) == ("", "")
    assert not view.contains(ahead, repo.head)  # not fetched yet
    assert (view.remote_has("main", repo.head), view.remote_has("gone", repo.head)) == (True, False)
    assert view.contains(ahead, repo.head)
    assert not view.contains(repo.head, ahead)
    assert (view.has("main", repo.head), view.has("main", ahead)) == (True, False)
    assert (view.is_in_head(repo.head), view.is_in_head(ahead)) == (True, False)
    assert view.branches_with(repo.head) == ("refs/heads/main",)
    assert view.branches_with(ahead) == view.branches_with("") == ()
    assert (frozen(user.path), frozen(bare.path)) == before
    local = BranchView(repo, user.environ)
    assert (local.remote_tip("main"), local.remote_has("main", repo.head)) == ("", False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("expectation", ["absent", "stale", "lost"])
def test_a_push_never_overwrites(
    bare: Checkout, repo: Repository, place: Place, expectation: str
) -> None:
    remote = find_remote(repo, place.git.environ)
    assert remote is not None
    theirs = commit_of(place, repo.head, "theirs")
    assert place.git.push(remote, theirs, "wave", None).ok
    mine = commit_of(place, repo.head, "mine")
    expected = {"absent": None, "stale": repo.head, "lost": theirs}[expectation]
    result = place.git.push(remote, mine, "wave", expected)
    assert (result.ok, result.kind) == (False, "advanced")
    assert bare.git("rev-parse", "wave") == theirs


@pytest.mark.more
def test_the_remotes_hook_is_heard(bare: Checkout, repo: Repository, place: Place) -> None:
    hook(bare.path / "hooks", "pre-receive", "echo 'no Mondays' >&2; exit 1")
    remote = find_remote(repo, place.git.environ)
    assert remote is not None
    result = place.git.push(remote, commit_of(place, repo.head), "wave", None)
    assert (result.ok, result.kind) == (False, "hook")
    assert "no Mondays" in result.reason


def test_an_unreachable_remote_is_told_without_its_password(
    user: Checkout, repo: Repository, place: Place
) -> None:
    user.git("remote", "add", "origin", "http://user:canary@127.0.0.1:1/x.git")
    remote = find_remote(repo, place.git.environ)
    assert remote is not None
    result = place.git.push(remote, repo.head, "wave", None)
    assert (result.ok, result.kind) == (False, "unreachable")
    assert "canary" not in result.reason
    assert "canary" not in repr(remote)
