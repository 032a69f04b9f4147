"""What an agent told of its use before it was ended is the least that it used."""

from __future__ import annotations

import json
from pathlib import Path

from driver.backend_api.driver import FAILURE_CANCELLED, WorkerRequest
from driver.backends.command import CommandDriver
from driver.execution.worker_pool import BackgroundTask
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually
from tests.support.waves import PATIENCE_S

TOKENS = {"input": 5_000_000, "output": 7, "reasoning": 0, "cache": {"read": 0, "write": 0}}
STEP = json.dumps({"type": "step_finish", "part": {"tokens": TOKENS, "cost": 2.5}})


def test_the_steps_of_an_agent_that_was_ended_are_known(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = f"import time; print({STEP!r}, flush=True); open({str(told)!r}, 'w'); time.sleep(60)"
    driver = CommandDriver([*PYTHON, "-c", program], environ={"PATH": ""}, output="opencode")
    request = WorkerRequest("work", workdir=str(tmp_path), scratch=tmp_path / "scratch")
    dispatch = BackgroundTask(lambda: driver.dispatch_worker(request))
    assert eventually(told.exists, PATIENCE_S)
    driver.cancel()
    result = dispatch.result()
    assert result.failure == FAILURE_CANCELLED
    assert (result.usage.total_tokens, result.usage.cost_usd) == (None, None)
    assert (result.usage.known_tokens, result.usage.known_usd) == (5_000_007, 2.5)
