"""Checks where the test commands of the tracker's items import the repository's modules from.

Changes nothing. It makes a temporary checkout of the branch's tip, and no set-up runs there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from driver.domain.ownership import OwnershipError, parse_owned
from driver.execution.processes import Processes
from driver.git.private_git import PrivateGit, Repository
from driver.python_imports.rules import of_absent
from driver.terminal.check_result import CheckResult, passed, warned
from driver.verification.import_question import ask, asked_by, objection
from driver.verification.test_run import test_environment
from state_store.documents.errors import TidegateError
from state_store.documents.item_status import is_open
from state_store.tracker.file import read_tracker_file
from tools.settings.load import Settings

NAME = "imports"


def check_imports(
    settings: Settings, repository: Repository, tracker: Path
) -> Iterator[CheckResult]:
    """Checks the open items with a Python test command. Yields nothing without such an item, and
    with a set-up, which may install what is missing."""
    if settings.workspace.setup or settings.workspace.copy or not tracker.is_file():
        return
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-doctor-") as folder:
            found = [*_objections(settings, repository, tracker, Path(folder))]
    except (TidegateError, OSError, ValueError, KeyError):
        return  # other checks tell of a repository or a tracker that cannot be read
    for reason in dict.fromkeys(filter(None, found)):
        what, _, remedy = reason.rpartition(": ")
        yield warned(NAME, what, remedy)
    if found and not any(found):
        yield passed(NAME, f"{len(found)} test commands import the modules of their checkout")


def _objections(
    settings: Settings, repository: Repository, tracker: Path, folder: Path
) -> Iterator[str]:
    """The objection to each open item with a Python test command, "" for none."""
    git = PrivateGit.create(folder / "git", repository, settings.environ)
    tree, top, processes = git.tree_of(repository.head), folder / "tree", Processes()
    paths = frozenset(git.paths_in(tree))

    def read(path: str) -> str:
        return git.blob(f"{tree}:{path}").decode("utf-8", "replace")

    for number, item in enumerate(filter(is_open, read_tracker_file(tracker).entries)):
        command, work_dir = item.get("testCmd") or "", str(item.get("workDir") or ".")
        words = command if isinstance(command, str) else tuple(map(str, command))
        asked = asked_by(words, work_dir, paths, read) if words else None
        if asked is None or item.get("repo"):
            continue
        try:
            owned = [parse_owned(str(one), work_dir) for one in item.get("ownsFiles") or ()]
        except OwnershipError:
            continue
        if not top.exists():
            git.checkout(tree, top, folder / "index")
        untracked = [path for path in asked.question.absent if (repository.top / path).is_file()]
        if absent := of_absent(asked.question.absent, owned, untracked):
            yield absent
            continue
        own = folder / str(number)
        own.mkdir()
        answer = ask(asked, top, paths, own, test_environment(settings), processes.run)
        yield objection(answer, asked.question, paths, owned)
