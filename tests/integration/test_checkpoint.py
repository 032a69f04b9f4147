"""STATE.md and BUILDLOG.md on a branch of their own: what is there, and what is never touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.git.private_git import open_repository
from driver.scheduler.checkpoint import checkpointed, published
from state_store.api import StateAPI
from state_store.database import events
from state_store.documents.errors import CannotRunError
from tests.support.repos import Checkout, checkout_fingerprint, frozen
from tests.support.waves import Scene
from tools.settings.schema import CheckpointSettings

BRANCH = "tidegate/state"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA2cD4fG6hJ8"


class PullRequestOutbox:
    """A store with something to tell, and a repository to tell it in."""

    def __init__(self, scene: Scene, api: StateAPI) -> None:
        self.scene, self.api = scene, api

    def decide(self, what: str) -> None:
        self.api.append(events.ORCHESTRATOR_STATUS, events.DECISION_LOCKED, {"decision": what})

    def commit(self, repo: Checkout | None = None, **settings: Any) -> dict[str, Any]:
        wanted = CheckpointSettings(**{"commit": True, **settings})
        changed = dataclasses.replace(self.scene.settings, checkpoint=wanted)
        where = (repo or self.scene.repo).path
        return checkpointed(self.api, where, changed, "w1").get("checkpoint", {})

    def git(self, *words: str) -> str:
        return self.scene.repo.git(*words)

    def state_md(self, branch: str = BRANCH) -> str:
        return self.git("show", f"{branch}:STATE.md")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[PullRequestOutbox]:
    with StateAPI(tmp_path / "tracker_events.db") as api:
        yield PullRequestOutbox(Scene(tmp_path, {"a.txt": "a\n"}, remote=True), api)


def test_nothing_is_committed_unasked(desk: PullRequestOutbox) -> None:
    assert desk.commit(commit=False) == {}
    assert desk.git("branch", "--list", BRANCH) == ""


def test_a_checkpoint_is_both_files_by_the_bot_and_one_new_ref(desk: PullRequestOutbox) -> None:
    desk.decide("use git")
    desk.scene.repo.write({"a.txt": "being edited\n", "new.txt": "n"})
    repository = open_repository(desk.scene.repo.path, desk.scene.environ)
    seen = checkout_fingerprint(repository, desk.scene.environ)
    before = frozen(desk.scene.repo.path)
    told = desk.commit()
    commit = desk.git("rev-parse", BRANCH)
    assert told == {"branch": BRANCH, "commit": commit, "pushed": False, "warning": None}
    after = frozen(desk.scene.repo.path)
    assert {path for path, _ in after.items() ^ before.items()} == {
        f".git/refs/heads/{BRANCH}",
        f".git/logs/refs/heads/{BRANCH}",
    }
    # Another wave in this repository does not take it for something that its agents did.
    assert not seen.differences(checkout_fingerprint(repository, desk.scene.environ))
    assert desk.git("ls-tree", "--name-only", BRANCH).split() == ["BUILDLOG.md", "STATE.md"]
    assert "use git" in desk.state_md()
    shown = desk.git("show", "-s", "--format=%P|%an <%ae>|%cn|%s", BRANCH)
    assert shown == "|Tidegate <tidegate@localhost>|Tidegate|State after wave w1"
    assert desk.scene.remote is not None
    assert desk.scene.remote.git("branch", "--list", BRANCH) == ""


def test_a_checkpoint_goes_on_from_the_one_before_and_is_made_only_of_news(
    desk: PullRequestOutbox,
) -> None:
    first = desk.commit()["commit"]
    assert desk.commit()["commit"] == first
    desk.decide("more")
    second = desk.commit()["commit"]
    assert desk.git("rev-parse", f"{second}^") == first
    assert desk.git("rev-list", "--count", BRANCH) == "2"


@pytest.mark.more
def test_a_pushed_checkpoint_goes_on_from_what_any_clone_pushed(
    desk: PullRequestOutbox, tmp_path: Path
) -> None:
    first = desk.commit(push=True)
    assert (first["pushed"], first["warning"]) == (True, None)
    remote = desk.scene.remote
    assert remote is not None
    assert remote.git("rev-parse", BRANCH) == first["commit"]
    fresh = Checkout(tmp_path / "fresh", desk.scene.environ)
    desk.git("clone", "-q", "--single-branch", str(remote.path), str(fresh.path))
    desk.decide("from a fresh clone")
    second = desk.commit(fresh, push=True)
    assert second["pushed"], second
    assert fresh.git("rev-parse", f"{BRANCH}^") == first["commit"]
    desk.decide("at home again")
    third = desk.commit(push=True)
    assert desk.git("rev-parse", f"{BRANCH}^") == second["commit"]
    assert remote.git("rev-parse", BRANCH) == third["commit"] == desk.git("rev-parse", BRANCH)


@pytest.mark.more
def test_what_cannot_be_pushed_is_a_sentence_and_changes_nothing_here(
    desk: PullRequestOutbox,
) -> None:
    first = desk.commit(push=True)["commit"]
    assert desk.scene.remote is not None
    gone = desk.scene.remote.path.rename(desk.scene.folder / "elsewhere.git")
    desk.decide("offline")
    told = desk.commit(push=True)
    assert told["warning"].startswith(f"no checkpoint on {BRANCH}: the remote could not be asked")
    gone.rename(desk.scene.remote.path)
    desk.commit()  # not pushed, so here is more than there; the remote gets something else
    desk.scene.remote.git("update-ref", f"refs/heads/{BRANCH}", desk.git("rev-parse", "main"))
    told = desk.commit(push=True)
    assert f"git branch -D {BRANCH}" in told["warning"]
    assert desk.git("rev-parse", f"{BRANCH}^") == first


@pytest.mark.more
def test_no_branch_that_is_for_something_else_gets_a_commit(
    desk: PullRequestOutbox, tmp_path: Path
) -> None:
    desk.git("branch", "work")
    desk.git("worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    before = desk.git("for-each-ref")
    for branch, why in (
        ("main", f"it is checked out at {desk.scene.repo.path}"),
        ("linked", f"it is checked out at {tmp_path / 'linked'}"),
        ("work", "a.txt is on it: name a branch in [checkpoint] branch"),
        ("work/state", "git update-ref ended with 128"),
    ):
        told = desk.commit(branch=branch)
        assert told["commit"] is None
        assert told["warning"].startswith(f"no checkpoint on {branch}: {why}")
    assert desk.git("for-each-ref") == before


def test_without_a_repository_there_is_a_sentence(desk: PullRequestOutbox, tmp_path: Path) -> None:
    wanted = CheckpointSettings(commit=True)
    changed = dataclasses.replace(desk.scene.settings, checkpoint=wanted)
    for where in (None, tmp_path / "plain"):
        told = checkpointed(desk.api, where, changed, "w1")["checkpoint"]
        assert (told["commit"], told["warning"] is not None) == (None, True)


def test_a_line_with_a_secret_is_left_out_and_named_without_it(desk: PullRequestOutbox) -> None:
    desk.scene.environ["SHOP_PASSWORD"] = "correct-horse-battery"
    desk.decide(f"the key is {TOKEN}")
    desk.decide("it is correct-horse-battery")
    desk.decide("harmless")
    told = desk.commit()
    shown = desk.state_md()
    assert "harmless" in shown
    assert TOKEN not in shown + told["warning"]
    assert "correct-horse" not in shown + told["warning"]
    assert "STATE.md:5 github_token" in told["warning"]
    assert "SHOP_PASSWORD" in told["warning"]
    objects = desk.git("cat-file", "--batch-all-objects", "--batch")
    assert TOKEN not in objects


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("# State\n\n- fine\n", "# State\n\n- fine\n"),
        (f"a\n- x {TOKEN}\nb\n", "a\n- (a line that holds a secret is left out)\nb\n"),
        (f"x {TOKEN}\n", "(a line that holds a secret is left out)\n"),
    ],
)
def test_what_is_published_is_the_text_without_lines_that_hold_secrets(
    text: str, clean: str
) -> None:
    assert published("STATE.md", text, {})[0] == clean


def test_a_secret_over_several_lines_keeps_everything_back() -> None:
    value = "first-part-of-it\nsecond-part-of-it"
    with pytest.raises(CannotRunError, match=r"it would publish a secret: STATE\.md holds"):
        published("STATE.md", f"a\n{value}\nb\n", {"KEY": value})
