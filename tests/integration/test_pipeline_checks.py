"""`doctor` tells what is wrong with the configured pipeline before a wave meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.diagnostics.backends import check_pipeline
from driver.terminal.check_result import CheckResult
from tests.support.repos import Checkout, make_repo, user_environ
from tools.settings.load import load

CONFIG = """
[[pipeline.phase]]
name = "work"
kind = "agent"
prompt = "work.md"
[[pipeline.phase]]
name = "gate"
kind = "gate"
"""
OTHER = """
[[pipeline.phase]]
name = "review"
kind = "review"
[pipeline.phase.backend]
name = "command"
command = ["nobody-has-this"]
"""


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    environ = user_environ(tmp_path / "home")
    return make_repo(tmp_path / "repo", environ, {"prompts/work.md": "{{TASK}} {{RULES}}\n"})


def looked(repo: Checkout, config: str) -> dict[str, CheckResult]:
    place = repo.path.parent / "tidegate.toml"
    place.write_text(config, encoding="utf-8")
    settings = load(project=repo.path, config=place, environ=repo.environ, cwd=repo.path)
    return {check.name: check for check in check_pipeline(settings, repo.path)}


def test_the_classic_order_needs_no_look(repo: Checkout) -> None:
    assert looked(repo, "") == {}


def test_a_pipeline_that_can_be_run_is_named_by_its_steps(repo: Checkout) -> None:
    [check] = looked(repo, CONFIG).values()
    assert (check.ok, check.detail) == (True, "work, gate")


@pytest.mark.parametrize(
    ("config", "files", "told"),
    [
        (f"{CONFIG}foo = 1\n", {}, "'foo' is no key of a phase"),
        (CONFIG.replace("work.md", "gone.md"), {}, "prompts/gone.md is in no commit"),
        (CONFIG, {"prompts/work.md": "{{NOBODY}}\n"}, "unknown variables: NOBODY"),
    ],
    ids=["a wrong key", "a prompt that is not committed", "an unknown variable"],
)
def test_what_would_keep_a_wave_from_starting_fails(
    repo: Checkout, config: str, files: dict[str, str], told: str
) -> None:
    if files:
        repo.commit(files)
    check = looked(repo, config)["pipeline"]
    assert not check.ok
    assert told in check.detail
    assert check.remedy


def test_the_backend_of_a_phase_is_examined(repo: Checkout) -> None:
    found = looked(repo, CONFIG + OTHER)
    assert found["pipeline"].ok
    assert not found["pipeline.review.ready"].ok
