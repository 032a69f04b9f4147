"""A further round for an item that is red, refused or unchanged, in the same workspace."""

from __future__ import annotations

from driver.ground import Place
from driver.outcome import Attempt
from driver.phases.build import attempt, first_prompt
from driver.prompts import repair_prompt
from driver.wave_context import Planned, Wave


def repair(planned: Planned, place: Place, wave: Wave, attempts: list[Attempt]) -> None:
    """One round with the command, exit code, output and own diff of the last in the prompt."""
    last = attempts[-1]
    place.forget_commits()
    diff = place.patch(last.tree).decode("utf-8", "replace")
    prompt = repair_prompt(first_prompt(planned, wave), planned.item, last, diff)
    attempt(planned, place, wave, attempts, number=last.number + 1, prompt=prompt)
