"""The first lines of a wave, for people who watch it begin."""

from __future__ import annotations

from collections.abc import Iterator

from driver.git.private_git import Repository
from driver.limits.admission import halt_command
from driver.run_state.context import Wave
from driver.terminal.safe_text import counted
from driver.workspace.repository_context import RepositoryGround


def first_lines(wave: Wave) -> Iterator[str]:
    """What is begun and by whom, how to stop it, where to look, and the base of each repository."""
    caps = wave.driver.probe_capabilities()
    items = counted(len(wave.plan), "item")
    tier = caps.recommended_verification_tier
    stop = ""
    if wave.state_dir is not None:
        stop = f"; or anywhere: {halt_command(wave.state_dir, 'set', 'REASON')}"
    told = f"wave {wave.wave_id}: {items}, backend {caps.name}, tier {tier}"
    yield f"{told}; to stop it, press Ctrl-C here{stop}"
    if wave.reviewer and any(map(wave.wants_review, wave.plan)):
        model = f" ({wave.reviewer.model})" if wave.reviewer.model else ""
        yield f"what needs a review is read by backend {wave.reviewer.driver.name}{model}"
    yield f"prompts and outputs of agents and tests: {wave.run_dir}"
    for ground in wave.grounds.values():
        if isinstance(ground, RepositoryGround):
            yield _base_line(ground.repository)


def _base_line(repository: Repository) -> str:
    where = f"branch {repository.branch}" if repository.branch else "a detached HEAD"
    depth = ", a shallow clone" if repository.shallow else ""
    return f"{repository.top}: builds on {where} at {repository.head[:12]}{depth}"
