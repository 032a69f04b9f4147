"""The reports that real waves leave: all files, safe text, also after a stop."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.programs import ROOT, Project, item, run_here, writes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the agents are POSIX programs")

FILES = ("report.html", "report.json", "report.md", "report.sarif", "junit.xml")
EVIL = "\\x1b]8;;http://x.example\\x07<script>x</script>\\u202e::error::x ##[error]y"
SAYS_EVIL = f"import sys; sys.stdout.write('::error::z\\n{EVIL}'); sys.exit(1)"


def folder_of(project: Project) -> Path:
    (report,) = (project.state / "runs").glob("*/report.json")
    return report.parent


@pytest.mark.more
def test_a_wave_with_hostile_output_leaves_safe_reports(project: Project) -> None:
    bad = item("bad", title=f"a {EVIL}", repairCap=0, testCmd=["python3", "-c", SAYS_EVIL])
    project.track(item("good"), {**bad, "prompt": f"{writes('bad.txt', 'x')}; print({EVIL!r})"})
    summary = project.home / "summary.md"
    ran = project.schedule(env={**os.environ, "GITHUB_STEP_SUMMARY": str(summary)})
    assert ran.code == 1, ran.err
    folder = folder_of(project)
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in FILES}
    for text in (*texts.values(), ran.out, ran.err, summary.read_text(encoding="utf-8")):
        assert all(char.isprintable() or char in "\n\t" for char in text)
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    for text in (ran.out, ran.err):
        assert "##[" not in text
    assert "<script>" not in texts["report.html"]
    assert "Output of test-1.out" in texts["report.html"]
    assert "+good" in texts["report.html"]
    suite = ET.fromstring(texts["junit.xml"])[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert json.loads(texts["report.sarif"])["runs"][0]["results"][0]["ruleId"]


def test_a_stopped_wave_leaves_its_reports_too(project: Project) -> None:
    halt = [*("python3", str(ROOT / "tools/halt.py"), "set", "enough"), "--state-dir"]
    stop = f"DO __import__('subprocess').run({[*halt, str(project.state)]!r})"
    project.track(item("a", prompt=f"{stop}\n{writes('a.txt', 'bad')}"), item("b"))
    ran = project.schedule("--max-workers", "1")
    assert ran.code == 3, ran.err
    folder = folder_of(project)
    assert {path.name for path in folder.iterdir()} >= set(FILES)
    assert "Stopped: " in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.more
def test_a_report_is_shown_again_and_waves_are_compared(project: Project, tmp_path: Path) -> None:
    project.track(item("a"))
    assert project.schedule().code == 0
    project.track(item("b", prompt=writes("b.txt", "bad"), repairCap=0))
    assert project.schedule().code == 1

    def report(*flags: str | Path) -> Any:
        program = ROOT / "driver/reports/program.py"
        ran = run_here(program, *flags, *project.places(), cwd=project.home)
        assert ran.code == 0, ran.err
        return ran

    again = report().out
    assert "b: failed: " in again
    page = tmp_path / "page.html"
    report("--html", page)
    assert "Not shipped" in page.read_text(encoding="utf-8")
    found = json.loads(report("--last", "5", "--json").out)
    assert [one["shipped"] for one in found["waves"]] == [0, 1]
    assert found["total"]["costPerShippedUsd"] is None
    assert list(found["reasons"]) == ["failed: test failed with exit"]
    report("--last", "5", "--html", page)
    assert "The last 2 waves" in page.read_text(encoding="utf-8")
