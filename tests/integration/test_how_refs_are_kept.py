"""A repository whose refs are no files is refused in a sentence before anything is begun."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from driver.git.repository import check_usable, open_repository
from state_store.documents.errors import CannotRunError
from tests.support.programs import git
from tests.support.repos import Checkout, make_repo, user_environ

pytestmark = pytest.mark.in_walls


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    return make_repo(tmp_path / "repo", user_environ(tmp_path), {"a.txt": "a\n"})


KNOWS_REFTABLES = tuple(map(int, re.findall(r"\d+", git(Path.cwd(), "version"))[:2])) >= (2, 45)


@pytest.mark.skipif(KNOWS_REFTABLES, reason="this git opens no repository that only says so")
@pytest.mark.parametrize("kept_as", ["reftable", "Reftable", "reftable:///elsewhere"])
def test_refs_that_are_no_files_are_refused_with_the_command_that_makes_them_files(
    repo: Checkout, kept_as: str
) -> None:
    repository = open_repository(repo.path, repo.environ)
    repo.git("config", "extensions.refStorage", kept_as)
    with pytest.raises(CannotRunError) as refused:
        check_usable(repository, repo.environ)
    remedy = f"git -C {shlex.quote(str(repo.path))} refs migrate --ref-format=files"
    assert str(refused.value).endswith(remedy)


@pytest.mark.skipif(not KNOWS_REFTABLES, reason="this git knows no reftable")
def test_a_reftable_is_refused(tmp_path: Path) -> None:
    environ = user_environ(tmp_path)
    repo = make_repo(tmp_path / "repo", environ, {"a.txt": "a\n"}, "--ref-format=reftable")
    with pytest.raises(CannotRunError, match="refs migrate"):
        check_usable(open_repository(repo.path, environ), environ)


@pytest.mark.parametrize("kept_as", ["files", ""])
def test_refs_that_are_files_are_fine(repo: Checkout, kept_as: str) -> None:
    repository = open_repository(repo.path, repo.environ)
    if kept_as and not KNOWS_REFTABLES:
        repo.git("config", "extensions.refStorage", kept_as)
    else:
        repo.git("config", "remote.refstorage.url", "elsewhere")  # the word alone says nothing
    check_usable(repository, repo.environ)
