"""A further round for an item in the same workspace: red, refused, unchanged, or found wanting."""

from __future__ import annotations

from driver.ground import Place
from driver.outcome import Attempt
from driver.phases.build import attempt, first_prompt
from driver.prompts import repair_prompt
from driver.review_prompt import findings_prompt
from driver.reviews import Review
from driver.wave_context import Planned, Wave


def repair(planned: Planned, place: Place, wave: Wave, last: Attempt) -> Attempt:
    """One round with the command, exit code, output and own diff of the last in the prompt."""
    place.forget_commits()
    diff = place.patch(last.tree).decode("utf-8", "replace")
    prompt = repair_prompt(first_prompt(planned, wave), planned.item, last, diff)
    return attempt(planned, place, wave, number=last.number + 1, prompt=prompt)


def address(planned: Planned, place: Place, wave: Wave, last: Attempt, found: Review) -> Attempt:
    """One round with a reviewer's findings and the own diff in the prompt."""
    place.forget_commits()
    diff = place.patch(last.tree).decode("utf-8", "replace")
    prompt = findings_prompt(first_prompt(planned, wave), found, diff)
    return attempt(planned, place, wave, number=last.number + 1, prompt=prompt)
