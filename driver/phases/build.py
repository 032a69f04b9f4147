"""One attempt at an item: dispatch an agent, see what it changed, prove it, judge it."""

from __future__ import annotations

import time
from pathlib import Path

from driver import verdicts, wave_bridge
from driver.agent_driver import WorkerResult
from driver.ground import Observed, Place
from driver.outcome import Attempt, Change, TestRun, Verdict
from driver.phases.prove import prove
from driver.prompts import build_prompt
from driver.recording import Recorded, RecordedFile
from driver.verdicts import GITLINK, Judgement
from driver.wave_context import Planned, Wave
from state_store.errors import TidegateError
from state_store.files import write_bytes_atomic

BUILD = "build"
REPAIR = "repair"


def build(planned: Planned, place: Place, wave: Wave) -> Attempt:
    """The first attempt."""
    return attempt(planned, place, wave, number=1, prompt=first_prompt(planned, wave))


def first_prompt(planned: Planned, wave: Wave) -> str:
    """What the agent is told first; a backend that sees no files has the rules in its own words."""
    with_rules = wave.driver.probe_capabilities().worker_filesystem_access
    return build_prompt(planned.item, with_rules=with_rules)


def attempt(planned: Planned, place: Place, wave: Wave, *, number: int, prompt: str) -> Attempt:
    """Dispatch with `prompt` and judge. Raises GateClosedError or InterruptedWaveError before
    anything is spent; once an agent ran, every trouble is part of the answer."""
    wave.gates.check()
    phase = BUILD if number == 1 else REPAIR
    wave.recorder.dispatched(planned.slug, planned.item.repo, phase, number)
    started = time.monotonic()
    result = wave_bridge.dispatch(planned, place, wave, phase=phase, number=number, prompt=prompt)
    duration = time.monotonic() - started
    seen, test = Observed(()), None
    try:
        seen = place.observe()
        _save(planned, place, wave, seen.tree)
        _record(planned, place, wave, seen, result, (phase, number, prompt, duration))
        judgement, test = _judge(planned, place, wave, result, seen, number)
    except TidegateError as error:
        judgement = Judgement(Verdict.UNDECIDED, str(error))
    except OSError as trouble:  # folders without rights, too deep for a path, a full disk
        judgement = Judgement(Verdict.UNDECIDED, f"its files could not be handled: {trouble}")
    done = Attempt(
        number=number,
        phase=phase,
        verdict=judgement.verdict,
        reason=judgement.reason,
        worker_id=result.worker_id,
        usage=result.usage,
        model=result.model,
        duration_s=duration,
        tree=seen.tree,
        changes=seen.changes,
        test=test,
    )
    wave.recorder.judged(planned.slug, planned.item.repo, done)
    return done


def work_patch(planned: Planned, wave: Wave) -> Path:
    """Where an item's work is kept as a patch against the base."""
    return wave.scratch_path(planned.slug) / "work.patch"


def _save(planned: Planned, place: Place, wave: Wave, tree: str | None) -> None:
    # Before the test, so that no end of this process, however sudden, takes the work along.
    patch, path = place.patch(tree), work_patch(planned, wave)
    if patch:
        write_bytes_atomic(path, patch)
    else:
        path.unlink(missing_ok=True)


def _judge(
    planned: Planned, place: Place, wave: Wave, result: WorkerResult, seen: Observed, number: int
) -> tuple[Judgement, TestRun | None]:
    changes = verdicts.of_changes(
        seen.changes, planned.owned, head_moved=seen.head_moved, links_outside=seen.links_outside
    )
    # Foreign files are named even when the agent crashed as well; an empty diff is its own news
    # only when the agent says that it worked.
    if changes is not None and changes.verdict is Verdict.REFUSED:
        return changes, None
    early = verdicts.of_dispatch(result) or changes
    if early is not None:
        return early, None
    test = prove(planned, place, seen.tree, wave, f"test-{number}")
    wave.recorder.tested(planned.slug, test)
    return verdicts.of_test(test), test


def _record(
    planned: Planned,
    place: Place,
    wave: Wave,
    seen: Observed,
    result: WorkerResult,
    about: tuple[str, int, str, float],
) -> None:
    writer = wave.options.recording
    if writer is None:
        return
    phase, number, prompt, duration = about
    writer.write(
        Recorded(
            item=planned.slug,
            phase=phase,
            number=number,
            prompt=prompt,
            ok=result.ok,
            error=result.error,
            text=result.text,
            model=result.model,
            usage=result.usage,
            duration_s=duration,
            files=tuple(_file(place, change) for change in seen.changes if change.mode != GITLINK),
        )
    )


def _file(place: Place, change: Change) -> RecordedFile:
    return RecordedFile(change.path, change.mode, place.contents(change))
