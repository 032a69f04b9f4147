"""Commands in remedies name an interpreter that is there, and amounts have no stray digits."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from driver.backend_api.driver import Usage
from driver.diagnostics.places import check_halt, check_tracker
from driver.limits.admission import halt_command
from driver.limits.usage_sums import token_totals
from driver.terminal.invocation import typed
from driver.terminal.progress import Progress
from state_store.database.errors import rebuild_command
from state_store.database.projections import project_agent_traces
from tools import halt


def remedies(folder: Path) -> list[str]:
    halt.halt("stop", folder)
    return [
        rebuild_command(folder),
        halt_command(folder, "--clear"),
        check_halt(folder).remedy,
        check_tracker(folder / "none.json").remedy,
    ]


@pytest.mark.parametrize("path", [None, "/nowhere"])
def test_a_remedy_names_the_interpreter_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    if path is not None:  # a system without a program of this name
        monkeypatch.setenv("PATH", path)
    for remedy in remedies(tmp_path):
        program = shlex.split(remedy)[0]
        found = shutil.which(program) or program
        assert Path(found).resolve() == Path(sys.executable).resolve(), remedy


@pytest.mark.skipif(os.name == "nt", reason="needs a program without an ending")
def test_where_the_command_is_installed_a_remedy_is_one_of_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "tidegate"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "run"])
    clear = f"halt --state-dir {tmp_path} --clear"
    with typed("tidegate run", "run"):
        assert halt_command(tmp_path, "--clear") == f"{script} {clear}"
        monkeypatch.setenv("PATH", str(script.parent))
        assert halt_command(tmp_path, "--clear") == f"tidegate {clear}"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), "a  b\n"), (io.StringIO(), None)])
def test_rows_of_a_table_have_all_of_a_terminals_width(
    stream: io.StringIO, shown: str | None
) -> None:
    Progress(stream).row("a  b")
    assert stream.getvalue() == (shown or "tidegate: a  b\n")


def test_amounts_that_people_read_are_rounded() -> None:
    usage = Usage(1, 1, 0.060000000000000005)
    assert repr(usage.to_json()["costUsd"]) == "0.06"
    assert repr(token_totals([("build", usage)])["costUsd"]) == "0.06"
    costs = [
        {"type": "agent_completed", "ts": 0.0, "payload": {"agent_id": str(n), "cost_usd": cost}}
        for n, cost in enumerate((0.1, 0.2))
    ]
    assert repr(project_agent_traces(costs)["totals"]["cost_usd"]) == "0.3"
