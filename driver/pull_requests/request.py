"""Ask for a pull request of each wave branch that was pushed, once all is shipped.

What is asked for is on file before anyone is asked, so a request that could not be made, or whose
run died, is made by the next run. Whatever happens here, what is shipped stays shipped. How a forge
is asked is `forge`'s, what is said there `pull_request`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from driver.domain.results import ItemOutcome, Shipment
from driver.execution.cancellation import CancellationToken
from driver.execution.processes import Processes
from driver.git.private_git import is_ancestor
from driver.limits.admission import check_halt
from driver.pull_requests.body import Proposed, PullRequest, PullRequestSummary, body, title
from driver.pull_requests.forge import NONE, TIMEOUT_S, Forge, NotMadeError, names_of
from driver.pull_requests.outbox import (
    MAX_TRIES,
    OutboxEntry,
    Proposal,
    all_open,
    file_of,
    note,
    noted,
)
from driver.pull_requests.summary import Pairs, ShippedLine, pull_request_summary
from driver.run_state.context import Wave
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import StoppedByPolicyError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.documents.journal import entries_about, load_entries
from state_store.documents.locks import locked
from tools.secrets.known_values import scan_known_values, secrets_of
from tools.settings.load import Settings


def propose(
    wave: Wave, outcomes: Sequence[ItemOutcome], shipments: Mapping[str, Shipment] | None
) -> tuple[Proposed, ...]:
    """Pull requests of what this wave pushed, of what it found pushed, and of what earlier runs of
    the state folder could not ask for; none unless `[ship] pr` wants them."""
    if wave.settings.ship.pr == NONE or shipments is None:
        return ()
    desk = PullRequestOutbox(
        settings=wave.settings,
        state_dir=wave.state_dir,
        stop=wave.options.stop,
        check=wave.gates.check,
        say=wave.recorder.say,
        record=wave.recorder.proposed,
    )
    asked: list[OutboxEntry] = []
    failed: list[Proposed] = []
    for key, ground in wave.repositories.items():
        if ground.remote is None:
            continue
        pairs = zip(wave.items, outcomes, strict=True)
        own = [(item, outcome) for item, outcome in pairs if item.context is ground]
        ship = shipments.get(key)
        pushed = (ship.branch, ship.tip) if ship else (None, None)
        sources = ((_pushed(wave, ship), *pushed), (_found(wave, ground, own), None, None))
        for lines, branch, tip in sources:  # that one is not known keeps nobody from the other
            try:
                asked.extend(_own(wave, ground, own, lines))
            except (TidegateError, OSError) as error:  # what is shipped has to be told all the same
                why = Proposed(key, branch or "", tip or "", wave.wave_id, error=str(error))
                failed.append(why)
    return (*failed, *desk.answers(asked))


def propose_left(
    settings: Settings,
    state_dir: Path,
    stop: CancellationToken,
    say: Callable[[str], None],
    record: Callable[[str, Mapping[str, Any]], None],
) -> tuple[Proposed, ...]:
    """For a run without a wave: the pull requests that earlier runs could not ask for."""
    if settings.ship.pr == NONE:
        return ()

    def check() -> None:
        stop.check()
        check_halt(state_dir)

    return PullRequestOutbox(settings, state_dir, stop, check, say, record).answers()


@dataclass(frozen=True)
class PullRequestOutbox:
    """Where a run asks for pull requests. `check` raises while nothing may be begun, `record` is
    told the wave and what came of it."""

    settings: Settings
    state_dir: Path | None
    stop: CancellationToken
    check: Callable[[], None]
    say: Callable[[str], None]
    record: Callable[[str, Mapping[str, Any]], None]

    def answers(self, own: Iterable[OutboxEntry] = ()) -> tuple[Proposed, ...]:
        """What comes of `own`, and of all that earlier runs left."""
        asked = list(own)
        for one in asked:
            self._keep(one)
        known = {one.proposal.commit for one in asked}
        left = all_open(self.state_dir) if self.state_dir else []
        asked += [one for one in left if one.proposal.commit not in known]
        asked = _named(asked, self.settings.environ.get("GH_REPO", ""))
        if not asked:
            return ()
        processes = Processes()
        self.stop.on_set(processes.cancel, only_by_signal=True)
        forge = Forge(self.settings.ship, self.settings.environ, processes)
        return tuple(self._answer(one, forge) for one in asked)

    def _answer(self, one: OutboxEntry, forge: Forge) -> Proposed:
        asked = one.proposal
        told = Proposed(asked.repo, asked.head, asked.commit, asked.wave_id, one.made)
        if one.made is not None:
            return told
        try:
            self.check()
            told = replace(told, made=self._made_once(one, forge))
        except StoppedByPolicyError as stopped:
            told = replace(told, error=f"{stopped}; not asked for yet, the next run does that")
        except (TidegateError, OSError) as error:
            told = replace(told, error=f"{error}{self._last_words(one)}")
        self.say(_line(told))
        self.record(asked.wave_id, _event(told))
        return told

    def _made_once(self, one: OutboxEntry, forge: Forge) -> PullRequest:
        if self.state_dir is None:
            return self._made(one, forge)
        # Another run of this state folder may be asking at this moment.
        with locked(file_of(self.state_dir, one.proposal), 2 * TIMEOUT_S):
            now = noted(self.state_dir, one.proposal.commit)
            return now.made if now and now.made else self._made(one, forge)

    def _made(self, one: OutboxEntry, forge: Forge) -> PullRequest:
        if not one.proposal.body:
            raise NotMadeError("its text would tell a secret of this machine")
        self._keep(replace(one, tries=one.tries + 1))
        failpoint("propose.before_asking")
        made = forge.make(one.proposal)
        failpoint("propose.made")
        self._keep(replace(one, made=made))
        return made

    def _last_words(self, one: OutboxEntry) -> str:
        if self.state_dir is None or not replace(one, tries=one.tries + 1).given_up:
            return ""
        where = file_of(self.state_dir, one.proposal)
        return f"; given up after {MAX_TRIES} runs: make it yourself, or remove {where} to go on"

    def _keep(self, one: OutboxEntry) -> None:
        try:
            if self.state_dir is not None:
                note(self.state_dir, one)
        except TidegateError as error:  # the forge is asked before the next one is made
            self.say(str(error))


def _named(asked: list[OutboxEntry], name: str) -> list[OutboxEntry]:
    """Those that were noted without a repository's name ask the one that the user has named since;
    it cannot be the name of several."""
    if not name or len({one.proposal.repo for one in asked}) != 1:
        return asked
    return [
        one if one.proposal.name else replace(one, proposal=replace(one.proposal, name=name))
        for one in asked
    ]


def _line(told: Proposed) -> str:
    if told.made is None:
        return f"no pull request of {told.branch}: {told.error}"
    return f"pull request of {told.branch}: {told.made.url or 'made'} ({told.made.state})"


def _event(told: Proposed) -> dict[str, Any]:
    made = asdict(told.made) if told.made else {"url": None, "number": None, "state": None}
    return {
        "repo": told.repo,
        "branch": told.branch,
        "commit": told.commit,
        **made,
        "error": told.error,
    }


def _own(
    wave: Wave, ground: CloneContext, own: Pairs, lines: Iterable[ShippedLine]
) -> Iterator[OutboxEntry]:
    """What is to be asked for of a repository's lines, with what was made of it already."""
    for line in lines:
        if line.branch == ground.repository.branch:
            continue  # the user's own: nothing to ask for
        on_file = noted(wave.state_dir, line.tip) if wave.state_dir else None
        if on_file is None:
            yield OutboxEntry(_proposal(wave, ground, own, line))
        elif not on_file.given_up:
            yield on_file


def _pushed(wave: Wave, shipment: Shipment | None) -> Iterator[ShippedLine]:
    if shipment and shipment.pushed and shipment.tip and shipment.branch:
        commits = dict(shipment.commits)
        yield ShippedLine(shipment.branch, shipment.tip, wave.wave_id, commits, shipment)


def _found(wave: Wave, ground: CloneContext, own: Pairs) -> Iterator[ShippedLine]:
    """What an earlier run announced and this one found on its branch, and not merged yet."""
    if wave.state_dir is None or not any(outcome.shipped_as for _, outcome in own):
        return
    entries, _ = load_entries(wave.state_dir)
    lines: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for item, outcome in own:
        subject = item.key
        for entry in entries_about(entries, subject.slug, subject.repo, subject.location):
            place = tuple(str(entry.get(name) or "") for name in ("branch", "tip", "waveId"))
            if outcome.shipped_as and entry.get("commit") == outcome.shipped_as and all(place):
                lines.setdefault(place, {})[item.slug] = entry
                break
    repository = ground.repository
    for (branch, tip, wave_id), items in lines.items():
        if not is_ancestor(repository, tip, repository.head, ground.environ):
            commits = {slug: str(entry["commit"]) for slug, entry in items.items()}
            yield ShippedLine(branch, tip, wave_id, commits, entries=items)


def _proposal(wave: Wave, ground: CloneContext, own: Pairs, line: ShippedLine) -> Proposal:
    remote, environ = ground.remote, wave.settings.environ
    single = len(wave.repositories) == 1
    named = environ.get("GH_REPO", "") if single else ""  # it cannot be the name of several
    name, owner = names_of(remote.url, remote.address, named) if remote else ("", "")
    told = pull_request_summary(own, line, ground.repository.branch)
    return Proposal(
        repo=str(ground.repository.top),
        wave_id=line.wave_id,
        head=line.branch,
        commit=line.tip,
        base=ground.repository.branch or "",
        title=_harmless((title(told), f"Wave {line.wave_id}"), environ),
        body=_harmless(_bodies(told), environ),
        name=name,
        owner=owner,
    )


def _bodies(told: PullRequestSummary) -> Iterator[str]:
    yield body(told)
    yield body(told, bare=True)


def _harmless(texts: Iterable[str], environ: Mapping[str, str]) -> str:
    """The first of the texts that tells no secret of this machine; "" when all do."""
    secrets = secrets_of(environ)
    return next((t for t in texts if not scan_known_values(t.encode(), secrets)), "")
