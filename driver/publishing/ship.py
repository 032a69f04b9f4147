"""Ships one repository's verified work: integrates it, asks the hooks, commits, publishes.

The commits are built from proven trees in a git dir of our own; the user's checkout, index and
config are watched by the checkout guard and never written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from driver.checkout_guard.guard import TOGETHER, CheckoutChange, names_of, warning
from driver.domain.commit_message import item_name
from driver.domain.results import ItemOutcome, Verdict
from driver.domain.shipment import Shipment
from driver.git.private_git import CommitSpec, GitError
from driver.merge_queue.batch import Batch, Entry, Integration
from driver.policy.judgement import Judgement
from driver.publishing.commit_builder import BATCH, batch_spec, commits_of, specs_of
from driver.publishing.fenced_push import ShippedElsewhereError, describe
from driver.publishing.hook_gate import AskedHooks
from driver.publishing.in_parts import ship_in_parts
from driver.publishing.publish import (
    NOTHING_LEFT,
    TARGET_ADVANCED,
    CommittedBatch,
    failed,
    is_sealed,
    keep,
    publish,
)
from driver.publishing.refused_content import may_be_about_content
from driver.run_state.context import Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.workspace.base_branch import Head, current_head
from driver.workspace.clone_context import CloneContext
from driver.workspace.repository_context import REPLACED

HOOK_REFUSED = "hook_refused"
_STILL_S = 1.0  # a look at the remote counts as new, unless a test or a hook ran since


class _MovedOnError(Exception):
    """The branch has new commits, and nothing has been published."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.head = head


class _WithdrawnError(Exception):
    """The user withdrew items of the batch; `reasons` by slug. Nothing has been published."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


def ship(context: CloneContext, entries: Sequence[Entry], wave: Wave) -> Shipment:
    """Integrate, commit and publish the verified `entries` of one repository.

    Raises GateClosedError or InterruptedWaveError while nothing has been published yet.
    """
    wave.gates.check()
    shipping = _Shipping(context, wave)
    shipment = shipping.ship(entries)
    return ship_in_parts(shipping, shipment) if shipping.is_refused(shipment) else shipment


class _Shipping:
    """Ships the items of one repository, all at once or in parts."""

    def __init__(self, context: CloneContext, wave: Wave) -> None:
        self.context, self.wave = context, wave
        self.looked_at = time.monotonic()
        self.integration = _on(context, wave, current_head(context, context.base))
        self.hooks = AskedHooks(context, wave)
        self.onto: str | None = None
        self.work: CommittedBatch | None = None

    def ship(self, entries: Sequence[Entry]) -> Shipment:
        """Ship these items, without those that may not be shipped any more."""
        context, wave = self.context, self.wave
        entries, evicted = _without(entries, Verdict.WITHDRAWN, _withdrawn(entries, wave))
        while True:
            foreign = [item.slug for item, _ in entries if not wave.recorder.still_ours(item.key)]
            reason = "another run took the item over while this one was not heard of"
            reasons = dict.fromkeys(foreign, reason)
            entries, more = _without(entries, Verdict.LEASED_ELSEWHERE, reasons)
            evicted += more
            try:
                return self._ship(entries, evicted)
            except LeasedElsewhereError:  # lost since the test above; nothing has been published
                continue
            except _WithdrawnError as withdrawn:
                entries, more = _without(entries, Verdict.WITHDRAWN, withdrawn.reasons)
                evicted += more
            except ShippedElsewhereError as others:
                named = {item.slug: others.found.get(item_name(item.spec)) for item, _ in entries}
                reasons = {slug: describe(one) for slug, one in named.items() if one is not None}
                entries, more = _without(entries, Verdict.SHIPPED_ELSEWHERE, reasons)
                evicted += more
            except _MovedOnError as moved:
                self.integration = _on(context, wave, moved.head, self.integration)

    def is_refused(self, shipment: Shipment) -> bool:
        """True if the remote refused the last batch, perhaps for its content, and surely does not
        have it."""
        work, context = self.work, self.context
        if work is None or shipment.kept != work.tip or is_sealed(context):
            return False
        if not may_be_about_content(shipment.push_error, shipment.refusal):
            return False
        return context.branches.remote_has(work.target or shipment.branch or "", work.tip) is False

    def go_on_from(self, shipment: Shipment) -> None:
        """Put later parts on the commits of a part that was shipped."""
        if shipment.tip is None:
            return
        self.onto = None if self.wave.shipping.onto_target else shipment.branch
        self.hooks = AskedHooks(self.context, self.wave, self.onto)
        self.context.move_checkouts(shipment.tip)
        head = Head(shipment.tip)
        self.integration = Integration(self.context, self.wave, head, self.integration)

    def _ship(self, entries: Sequence[Entry], evicted: Sequence[ItemOutcome]) -> Shipment:
        context, wave, integration = self.context, self.wave, self.integration
        guard, runs = context.checkout_guard, integration.runs
        with guard.guarded(TOGETHER) if guard else nullcontext():
            batch, specs, refusal = _shippable(integration, context, entries, wave, self.hooks)
            changes = guard.all_changes() if guard else ()
        head = integration.head.commit
        shipment = Shipment(
            str(context.repository.top),
            evicted=(*evicted, *batch.evicted),
            onto=head,
            integration=tuple(integration.receipts),
            integration_runs=integration.runs,
            warning=warning(changes),
        )
        if not batch.entries:
            return failed(shipment, NOTHING_LEFT, "no item left")
        stop = _reason_to_stop(changes, context, wave)
        if stop or refusal:
            return failed(shipment, "checkout_changed" if stop else HOOK_REFUSED, stop or refusal)
        is_idle = integration.runs == runs and not self.hooks.have_run
        is_new = is_idle and time.monotonic() < self.looked_at + _STILL_S
        moved = "" if is_new and not integration.moved else _moved_again(integration, context)
        wave.gates.check()
        if reasons := _withdrawn(batch.entries, wave):
            raise _WithdrawnError(reasons)
        try:
            commits = commits_of(batch, context, head, specs)
        except GitError as error:
            return failed(shipment, "git_commit_failed", str(error))
        work = CommittedBatch(context, tuple(integration.notes), batch, commits, wave, self.onto)
        self.work = work
        if moved:
            return keep(failed(shipment, TARGET_ADVANCED, moved), work)
        is_new = not (wave.shipping.onto_target or self.onto)
        if refusal := self.hooks.of_push(context.remote, work.tip, is_new=is_new):
            return failed(shipment, HOOK_REFUSED, refusal)
        return publish(shipment, work)


def _on(
    context: CloneContext, wave: Wave, head: Head, before: Integration | None = None
) -> Integration:
    if head.note:
        wave.recorder.say(head.note)
    if head.commit != context.base:
        context.move_checkouts(head.commit)
        branch, short = context.repository.branch, head.commit[:12]
        wave.recorder.say(f"{branch} moved on to {short}: everything is proven again on that")
    return Integration(context, wave, head, before)


def _shippable(
    integration: Integration,
    context: CloneContext,
    entries: Sequence[Entry],
    wave: Wave,
    hooks: AskedHooks,
) -> tuple[Batch, tuple[CommitSpec, ...], str]:
    """The batch that is green everywhere, its commits as the user's hooks allow them, and a refusal
    of the hooks that concerns the whole batch."""
    refused: dict[str, ItemOutcome] = {}
    single, head = wave.settings.ship.commit == BATCH, integration.head.commit
    while True:
        batch = integration.build_batch([e for e in entries if e[0].slug not in refused])
        answer = hooks.of_batch(batch, specs_of(batch, wave), head, messages=not single)
        if not answer.refused:
            break
        for outcome in answer.refused:
            refused[outcome.slug] = outcome
            wave.recorder.say(f"{outcome.slug}: left out: {outcome.reason}")
    batch = replace(batch, evicted=(*batch.evicted, *refused.values()))
    if not single or not batch.entries:
        return batch, answer.specs, ""
    spec = hooks.of_message(batch_spec(batch, context, wave, head), batch.trees[-1], head)
    return (batch, (), spec.reason) if isinstance(spec, Judgement) else (batch, (spec,), "")


def _moved_again(integration: Integration, context: CloneContext) -> str:
    """The reason to stop after the branch moved on a second time; "" if it did not move.

    Raises _MovedOnError after the first time.
    """
    now = current_head(context, integration.head.commit)
    if now.commit == integration.head.commit:
        return ""
    if not integration.moved:
        raise _MovedOnError(now)
    return (
        f"{context.repository.branch} moved on twice while the wave ran, to {now.commit[:12]} now:"
        " nothing was shipped; the next run ships it on that, without building it again"
    )


def _without(
    entries: Sequence[Entry], verdict: Verdict, reasons: Mapping[str, str]
) -> tuple[list[Entry], list[ItemOutcome]]:
    """The items that stay, and the outcomes, with this verdict, of those with a reason by slug."""
    kept = [entry for entry in entries if entry[0].slug not in reasons]
    evicted = [
        replace(outcome, verdict=verdict, reason=reasons[item.slug])
        for item, outcome in entries
        if item.slug in reasons
    ]
    return kept, evicted


def _withdrawn(entries: Sequence[Entry], wave: Wave) -> dict[str, str]:
    """The items that the user withdrew, by slug, and why."""
    ids = {name: i.slug for i, _ in entries if (name := i.spec.item_id) is not None}
    return {ids[name]: why for name, why in wave.options.withdrawn(ids.keys()).items()}


def checkout_warning(context: CloneContext) -> Shipment | None:
    """A shipment that only warns about changes in the user's checkout; None if there are none."""
    text = warning(context.checkout_guard.all_changes() if context.checkout_guard else ())
    return Shipment(str(context.repository.top), warning=text) if text else None


def _reason_to_stop(changes: Sequence[CheckoutChange], context: CloneContext, wave: Wave) -> str:
    """The reason why proven work may not be shipped; "" if there is none.

    A change by the tests of all items together may be any item's. Moving the user's own checkout
    runs the programs that its git dir names, so these must be the user's. Files that [workspace]
    copy takes into test checkouts take part in every proof.
    """
    guard = context.checkout_guard
    if guard is not None and guard.walled:
        changes = ()  # they are the user's own
    risky = [change for change in changes if change.can_execute_code]
    if by_tests := [change for change in risky if TOGETHER in change.blamed]:
        return f"your checkout changed while all tests ran together: {names_of(by_tests)}"
    if replaced := context.replaced_objects():
        return REPLACED.format(", ".join(replaced))
    if sources := context.changed_sources():
        names = ", ".join(sources)
        return f"what [workspace] copy takes from your checkout changed meanwhile: {names}"
    if wave.shipping.onto_target and risky:
        return f"your checkout changed in a way that may run programs: {names_of(risky)}"
    return ""
