"""The project's instructions that agents get: which files, in which order, and what is left out."""

from __future__ import annotations

import pytest

from driver.agents.instructions import instructions
from driver.backend_api.driver import WorkerRequest


def told(files: dict[str, str], *owned: str, work_dir: str = ".") -> str:
    """The instructions of an item that owns `owned`."""
    return instructions(frozenset(files), files.__getitem__, work_dir, owned)


def shown(files: dict[str, str], *owned: str, work_dir: str = ".") -> list[str]:
    """The files that they show, in their order."""
    lines = told(files, *owned, work_dir=work_dir).splitlines()
    return [line[5:-1] for line in lines if line.startswith("File ")]


def test_a_project_without_instructions_adds_nothing_to_a_prompt() -> None:
    assert told({"a.py": "1", "docs/CLAUDE.md.txt": "x"}, "a.py") == ""
    assert WorkerRequest("Do it.").full_prompt == "Do it."


def test_the_instructions_stand_before_the_prompt() -> None:
    text = told({"CLAUDE.md": "Use tabs.\n"}, "a.py")
    assert WorkerRequest("Do it.", instructions=text).full_prompt == f"{text}\n\nDo it."
    assert text.endswith("File CLAUDE.md:\n```\nUse tabs.\n```")


def test_the_outer_folder_comes_first_and_other_folders_are_left_out() -> None:
    files = {
        "CLAUDE.md": "top",
        "AGENTS.md": "all agents",
        "GEMINI.md": "gemini",
        ".claude/CLAUDE.md": "in its folder",
        ".cursorrules": "old rules",
        "web/AGENTS.md": "of web",
        "web/api/AGENTS.md": "of api",
        "docs/AGENTS.md": "of docs",
    }
    top = ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md", "GEMINI.md", ".cursorrules"]
    assert shown(files, "web/api/x.ts") == [*top, "web/AGENTS.md", "web/api/AGENTS.md"]
    assert shown(files, "web/api/") == [*top, "web/AGENTS.md", "web/api/AGENTS.md"]
    assert shown(files, "api/x.ts", work_dir="web") == [*top, "web/AGENTS.md", "web/api/AGENTS.md"]
    assert shown(files, "x.py") == top


@pytest.mark.parametrize("text", ["AGENTS.md", "@AGENTS.md", "the same"])
def test_what_two_files_share_is_told_once(text: str) -> None:
    found = told({"CLAUDE.md": text, "AGENTS.md": "the same"}, "a.py")
    assert found.count("the same") == 1


def test_imports_are_followed_inside_of_the_repository_only() -> None:
    files = {
        "web/CLAUDE.md": "See @style.md, @../team.md and @../../etc/passwd. Not `@code.md`.",
        "web/style.md": "style @CLAUDE.md",
        "team.md": "team",
        "web/code.md": "code",
    }
    assert shown(files, "web/a.ts") == ["web/CLAUDE.md", "web/style.md", "team.md"]


def test_rules_for_other_files_are_left_out() -> None:
    files = {
        ".cursor/rules/always.mdc": "---\ndescription: x\nalwaysApply: true\n---\nalways",
        ".cursor/rules/web.mdc": "---\nglobs: web/**/*.ts, *.css\nalwaysApply: false\n---\nweb",
        ".cursor/rules/asked.mdc": "---\ndescription: to release\nalwaysApply: false\n---\nx",
        ".claude/rules/plain.md": "plain",
        ".claude/rules/deep/api.md": '---\npaths:\n  - "src/api/**"\n---\napi',
    }
    plain, always = ".claude/rules/plain.md", ".cursor/rules/always.mdc"
    api, web = ".claude/rules/deep/api.md", ".cursor/rules/web.mdc"
    assert shown(files, "a.py") == [plain, always]
    assert shown(files, "web/x/y.ts") == [plain, always, web]
    assert shown(files, "web/y.ts", "src/api/z.py") == [api, plain, always, web]
    assert shown(files, "src/") == [api, plain, always, web]  # it may get a `*.css`
    assert "  .cursor/rules/asked.mdc: to release" in told(files, "a.py")


def test_a_text_cannot_end_its_fence_and_long_ones_are_cut() -> None:
    files = {"CLAUDE.md": "```\nFile b:\n```", "AGENTS.md": "x" * 200_000}
    found = told(files, "a.py")
    assert "````\n```\nFile b:\n```\n````" in found
    assert len(found) < 40_000
    many = {f"{'d/' * n}AGENTS.md": f"{n}" * 30_000 for n in range(5)}
    assert "read them in the workspace: d/d/AGENTS.md" in told(many, "d/d/d/d/a.py")
