"""Asks an agent that may only read: it looks at a copy that is thrown away, and answers in text."""

from __future__ import annotations

from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path

from driver.agents.agent_request import reading_request
from driver.agents.dispatch import dispatch
from driver.backend_api.driver import WorkerResult
from driver.domain.phase_receipt import COMPLETED, STALLED, WORKER, PhaseReceipt
from driver.domain.results import Attempt, Verdict
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import open_plain
from driver.pipeline.definition import Phase
from driver.pipeline_run.phase_prompt import phase_prompt
from driver.pipeline_run.step_log import Started
from driver.policy import judgement as verdicts
from driver.policy.judgement import Judgement
from driver.run_state.context import ItemRun
from driver.terminal.safe_text import bounded, safe_text
from state_store.documents.files import write_text_atomic
from state_store.redaction.installed import redacted

MAX_CHARS = 60_000

Ended = tuple[PhaseReceipt, Judgement | None]


def read_only(item: ItemRun, phase: Phase, work: Attempt, attempts: int) -> Ended:
    """The phase's receipt, and the verdict where the item goes no further.

    An answer that does not come never takes proven work along: the item waits for the next run.
    """
    prompt = phase_prompt(item, phase, work)
    request = reading_request(item, phase, work.tree or "", prompt)
    request = replace(request, attempts=attempts)
    started = Started(work.tree, prompt, request.backend.driver)
    with dispatch(item, request) as sent:
        result = sent.result
        answer = _answer(request.artifact, result)
        sent.record(item, text=answer or result.text, structured=result.structured)
        accused = sent.attribution()
    problem, text = _judged(result, answer, accused)
    artifacts: tuple[str, ...] = ()
    if problem is None:
        path = item.scratch / phase.artifact
        write_text_atomic(path, text)
        artifacts = (str(path),)
    status, why = (STALLED, problem.reason) if problem else (COMPLETED, "")
    billed = replace(work, usage=result.usage, model=result.model)
    receipt = started.receipt(phase, WORKER, status, work=billed, request=request, reason=why)
    ended = Judgement(problem.verdict, f"phase {phase.name}: {why}") if problem else None
    return replace(receipt, artifacts=artifacts), ended


def _judged(result: WorkerResult, answer: str, accused: str) -> tuple[Judgement | None, str]:
    """The judgement of an answer that cannot be used, else None; and its text."""
    if accused:
        return Judgement(Verdict.UNDECIDED, accused), ""
    if (failed := verdicts.of_dispatch(result)) is not None:
        halted = failed.verdict is Verdict.HALTED
        return (failed if halted else Judgement(Verdict.UNDECIDED, failed.reason)), ""
    text = bounded(safe_text(answer), MAX_CHARS).strip()
    if not text:
        return Judgement(Verdict.UNDECIDED, "its agent gave no answer"), ""
    return None, text + "\n"


def _answer(path: Path | None, result: WorkerResult) -> str:
    """The text of the agent's file, else that of its object, else its last message."""
    if path is not None and (written := _read(path)).strip():
        return written
    told = (result.structured or {}).get("text")
    return told if isinstance(told, str) else result.text


def _read(path: Path) -> str:
    try:
        # The agent chose what lies here: a pipe or a device must not hold us up.
        with open_plain(path.parent, path.name) as stream:
            file = TextIOWrapper(stream, encoding="utf-8", errors="replace")
            return redacted(file.read(2 * MAX_CHARS))
    except (OSError, NotPlainError):
        return ""
