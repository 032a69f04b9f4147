"""What the documents say of the project is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools.settings.load import load

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
DEMO_COMMAND = "python driver/wave_scheduler.py --execute --demo"
TEST_COMMAND = "python -m pip install pytest && python -m pytest"
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#\s]+)")
README_LINES = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_document_is_reached_from_the_readme() -> None:
    linked = {(ROOT / link).resolve() for link in LINK.findall("\n".join(README_LINES))}
    assert {path for path in DOCUMENTS if path.name != "README.md"} <= linked


def test_the_first_two_commands_of_the_readme_are_the_demo_and_the_tests() -> None:
    commands = [line.strip() for line in README_LINES if line.startswith("    python ")]
    assert commands[:2] == [DEMO_COMMAND, TEST_COMMAND]


def test_what_proves_a_change_runs_the_test_command_of_the_readme() -> None:
    proof = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert proof[-2:] == [TEST_COMMAND, "python -m pytest -m more"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_example_of_a_configuration_is_a_valid_one(document: Path, tmp_path: Path) -> None:
    text = re.sub(r"^ +", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for example in re.findall(r"^```toml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        assert tomllib.loads(example)
        (tmp_path / "tidegate.toml").write_text(example, encoding="utf-8")
        load(project=tmp_path, environ={"HOME": str(tmp_path)})
