"""Decide what of one repository's verified work ships: integrate, ask the hooks, commit.

The commits are built from proven trees in a git dir of our own; the user's checkout, index and
config are watched (`tripwire`) and never written. Where the commits then go is `publish`'s.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from driver.git import CommitSpec, GitError
from driver.ground import RepositoryGround
from driver.leasing import LeasedElsewhereError
from driver.outcome import ItemOutcome, Shipment, Verdict
from driver.phases.hooks import AskedHooks
from driver.phases.integrate import Entry, Integration, Line
from driver.phases.publish import TARGET_ADVANCED, Cargo, branch_to_be, failed, keep, publish
from driver.ship_names import commit_message
from driver.target import Head, look
from driver.tripwire import TOGETHER, Stray, told, warning
from driver.wave_context import Wave


class _MovedOnError(Exception):
    """The branch is further now, and nothing has been published."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.head = head


def ship(ground: RepositoryGround, entries: Sequence[Entry], wave: Wave) -> Shipment:
    """Integrate, commit and publish the verified `entries` of one repository.

    Raises GateClosedError or InterruptedWaveError while nothing has been published yet.
    """
    wave.gates.check()
    integration, lost = _on(ground, wave, look(ground, ground.base)), list[ItemOutcome]()
    hooks = AskedHooks(ground, wave, branch_to_be(ground, wave))
    while True:
        entries, taken = _still_ours(entries, wave)
        lost += taken
        try:
            return _ship(integration, ground, entries, lost, wave, hooks)
        except LeasedElsewhereError:  # since we asked, and nothing has been published
            continue
        except _MovedOnError as moved:
            integration = _on(ground, wave, moved.head, integration)


def _on(
    ground: RepositoryGround, wave: Wave, head: Head, before: Integration | None = None
) -> Integration:
    if head.note:
        wave.recorder.say(head.note)
    if head.commit != ground.base:
        ground.move_trees(head.commit)
        branch, short = ground.repository.branch, head.commit[:12]
        wave.recorder.say(f"{branch} moved on to {short}: everything is proven again on that")
    return Integration(ground, wave, head, before)


def _ship(
    integration: Integration,
    ground: RepositoryGround,
    entries: Sequence[Entry],
    lost: Sequence[ItemOutcome],
    wave: Wave,
    hooks: AskedHooks,
) -> Shipment:
    with ground.tripwire.at_work(TOGETHER) if ground.tripwire else nullcontext():
        line, specs = _allowed(integration, entries, wave, hooks)
        strays = _strays(ground)
    shipment = _told_of(integration, ground, (*lost, *line.left_out))
    shipment = replace(shipment, warning=warning(strays))
    if not line.entries:
        return failed(shipment, "nothing_green_together", "no item left")
    if stop := _reason_to_stop(strays, ground, wave):
        return failed(shipment, "checkout_changed", stop)
    moved = _moved_again(integration, ground)
    wave.gates.check()
    try:
        cargo = _committed(ground, integration, line, specs, wave)
    except GitError as error:
        return failed(shipment, "git_commit_failed", str(error))
    if moved:
        return keep(failed(shipment, TARGET_ADVANCED, moved), cargo)
    if no := hooks.of_push(ground.remote, cargo.tip, is_new=wave.shipping.mode != "current"):
        return failed(shipment, "hook_refused", no)
    together = tuple((planned.slug, outcome.together) for planned, outcome in line.entries)
    files = sum(len(outcome.changes) for _, outcome in line.entries)
    return publish(replace(shipment, files_count=files, together=together), cargo)


def _allowed(
    integration: Integration, entries: Sequence[Entry], wave: Wave, hooks: AskedHooks
) -> tuple[Line, tuple[CommitSpec, ...]]:
    """A line that is green everywhere and whose commits the user's hooks allow."""
    refused: dict[str, ItemOutcome] = {}
    while True:
        line = integration.line_up([e for e in entries if e[0].slug not in refused])
        answer = hooks.of_line(line, _specs(line, wave), integration.head.commit)
        if not answer.refused:
            return replace(line, left_out=(*line.left_out, *refused.values())), answer.specs
        for outcome in answer.refused:
            refused[outcome.slug] = outcome
            wave.recorder.say(f"{outcome.slug}: left out: {outcome.reason}")


def _told_of(
    integration: Integration, ground: RepositoryGround, left_out: tuple[ItemOutcome, ...]
) -> Shipment:
    return Shipment(
        str(ground.repository.top),
        left_out=left_out,
        onto=integration.head.commit,
        integration=tuple(integration.receipts),
        integration_runs=integration.runs,
    )


def _moved_again(integration: Integration, ground: RepositoryGround) -> str:
    """Why to stop, as the branch moved on once more; "" where it did not.

    Raises _MovedOnError when it did for the first time.
    """
    now = look(ground, integration.head.commit)
    if now.commit == integration.head.commit:
        return ""
    if not integration.moved:
        raise _MovedOnError(now)
    return (
        f"{ground.repository.branch} moved on twice while the wave ran, to {now.commit[:12]} now:"
        " nothing was shipped; the next run ships it on that, without building it again"
    )


def _still_ours(entries: Sequence[Entry], wave: Wave) -> tuple[list[Entry], list[ItemOutcome]]:
    """The items that may be shipped, and those that another run has taken over meanwhile."""
    ours, lost = [], []
    for planned, outcome in entries:
        if wave.recorder.still_ours(wave.subject(planned)):
            ours.append((planned, outcome))
        else:
            reason = "another run took the item over while this one was not heard of"
            lost.append(replace(outcome, verdict=Verdict.LEASED_ELSEWHERE, reason=reason))
    return ours, lost


def strays(ground: RepositoryGround) -> Shipment | None:
    """Where there is nothing to ship: what was changed in the user's checkout all the same."""
    told = warning(_strays(ground))
    return Shipment(str(ground.repository.top), warning=told) if told else None


def _strays(ground: RepositoryGround) -> tuple[Stray, ...]:
    return ground.tripwire.all_strays() if ground.tripwire else ()


def _reason_to_stop(strays: Sequence[Stray], ground: RepositoryGround, wave: Wave) -> str:
    """Why nothing may be shipped although it is proven; "" when nothing is in the way.

    Tests of all items together that plant something may be any item's. And who moves the user's
    own checkout runs the programs that its git dir names, so these must be the user's. What is
    copied from there into proving trees has a say in every proof.
    """
    grave = [stray for stray in strays if stray.grave]
    if by_tests := [stray for stray in grave if TOGETHER in stray.blamed]:
        return f"your checkout changed while all tests ran together: {told(by_tests)}"
    if changed := ground.workshop.changed_sources():
        names = ", ".join(changed)
        return f"what [workspace] copy takes from your checkout changed meanwhile: {names}"
    if wave.shipping.mode == "current" and grave:
        return f"your checkout changed in a way that may run programs: {told(grave)}"
    return ""


def _committed(
    ground: RepositoryGround,
    integration: Integration,
    line: Line,
    specs: Sequence[CommitSpec],
    wave: Wave,
) -> Cargo:
    commits = ground.git.import_commits(integration.head.commit, specs)
    if tuple(commit.tree for commit in commits) != line.trees:
        raise AssertionError("a commit's tree is not the tree that was proven")
    if ground.signer is not None:
        commits = ground.signer.signed(ground.git.path, integration.head.commit, specs, line.trees)
    return Cargo(ground, tuple(integration.notes), line, commits, wave)


def _specs(line: Line, wave: Wave) -> list[CommitSpec]:
    date = f"{int(time.time())} +0000"
    ship_settings, anchor = wave.settings.ship, wave.recorder.anchor
    return [
        CommitSpec(
            commit_message(
                planned.item, wave.wave_id, tree, anchor, work_dir=planned.home.work_dir
            ),
            outcome.changes,
            ship_settings.bot_name,
            ship_settings.bot_email,
            date,
        )
        for (planned, outcome), tree in zip(line.entries, line.trees, strict=True)
    ]
