"""An agent that may only read: it looks at a copy that is thrown away, and answers with a text."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from driver.agents.attempt import Dispatched, dispatched
from driver.agents.dispatch import Call, dispatch_reader
from driver.agents.guarded import watched
from driver.backend_api.driver import WorkerResult
from driver.checkout_guard.guard import attribution
from driver.domain.phase_receipt import COMPLETED, STALLED, WORKER, PhaseReceipt
from driver.domain.results import Attempt, Verdict
from driver.pipeline.definition import Phase
from driver.pipeline_run.phase_prompt import phase_prompt
from driver.pipeline_run.step_log import Started, call_of
from driver.policy import judgement as verdicts
from driver.policy.judgement import Judgement
from driver.run_state.context import ItemRun
from driver.terminal.safe_text import bounded, safe_text
from state_store.documents.errors import TidegateError
from state_store.documents.files import write_text_atomic

MAX_CHARS = 60_000
_ANSWER = "answer.md"

Ended = tuple[PhaseReceipt, Judgement | None]


def read_only(item: ItemRun, phase: Phase, work: Attempt, attempts: int) -> Ended:
    """The phase's receipt, and the verdict where the item goes no further.

    An answer that does not come never takes proven work along: the item waits for the next run.
    """
    prompt = phase_prompt(item, phase, work)
    call = replace(call_of(item, phase, phase.name, 1, prompt), attempts=attempts)
    call = replace(call, artifact=item.scratch / call.folder / _ANSWER)
    started = Started(work.tree, prompt, call.performer.driver)
    sent, accused = _asked(item, call, work.tree or "")
    problem, text = _judged(call, sent.result, accused)
    artifacts: tuple[str, ...] = ()
    if problem is None:
        path = item.scratch / phase.artifact
        write_text_atomic(path, text)
        artifacts = (str(path),)
    status, why = (STALLED, problem.reason) if problem else (COMPLETED, "")
    told = replace(work, usage=sent.result.usage, model=sent.result.model)
    receipt = started.receipt(phase, WORKER, status, work=told, call=call, reason=why)
    ended = Judgement(problem.verdict, f"phase {phase.name}: {why}") if problem else None
    return replace(receipt, artifacts=artifacts), ended


def _asked(item: ItemRun, call: Call, tree: str) -> tuple[Dispatched, str]:
    """The dispatch, and what is held against it of the user's checkout."""
    item.wave.spending.check(call.performer.gates)
    with watched(item) as strays, item.workspace.reading_copy(tree) as copy:
        send: Callable[[Call], WorkerResult] = partial(_sent, item, copy.path)
        sent = dispatched(item, call, send)
        _note(item, sent)
        try:
            return sent, attribution(strays())
        except TidegateError as error:
            return sent, str(error)


def _sent(item: ItemRun, copy: Path, call: Call) -> WorkerResult:
    """One try; what one before it has written down is not the answer of this one."""
    _forget(call.artifact)
    return dispatch_reader(item, copy, call)


def _judged(call: Call, result: WorkerResult, accused: str) -> tuple[Judgement | None, str]:
    """What is wrong with an answer, else None and its text."""
    if accused:
        return Judgement(Verdict.REFUSED, accused), ""
    if (failed := verdicts.of_dispatch(result)) is not None:
        halted = failed.verdict is Verdict.HALTED
        return (failed if halted else Judgement(Verdict.UNDECIDED, failed.reason)), ""
    text = bounded(safe_text(_answer(call.artifact, result)), MAX_CHARS).strip()
    if not text:
        return Judgement(Verdict.UNDECIDED, "its agent gave no answer"), ""
    return None, text + "\n"


def _answer(path: Path | None, result: WorkerResult) -> str:
    """What the agent wrote to its file, else its object's text, else what it said."""
    if path is not None and (written := _read(path)).strip():
        return written
    told = (result.structured or {}).get("text")
    return told if isinstance(told, str) else result.text


def _read(path: Path) -> str:
    try:
        # The agent chose what lies here: a pipe or a device must not hold us up.
        if not stat.S_ISREG(path.lstat().st_mode):
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(2 * MAX_CHARS)
    except OSError:
        return ""


def _forget(path: Path | None) -> None:
    """Whatever is there now is nobody's answer to this call."""
    if path is not None:
        with suppress(OSError):
            path.unlink()


def _note(item: ItemRun, sent: Dispatched) -> None:
    if item.wave.options.recording is None:
        return
    said = sent.result
    text = _answer(sent.call.artifact, said) or said.text
    entry = replace(sent.recorded(item.slug), text=text, structured=said.structured)
    item.wave.options.recording.write(entry)
