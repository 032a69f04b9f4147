"""Agents get the project's instructions as the base commit has them, whatever lies on disk."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.support.beside import beside_on
from tests.support.waves import Agent, Scene, Step, item, verdicts

FILES = {"a.txt": "base\n", "CLAUDE.md": "Speak softly. @more.md\n", "more.md": "Carry a stick.\n"}
A_GOOD = "grep -q good a.txt"

on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


@on_scene
def test_each_round_is_told_the_texts_of_the_base(scene: Scene) -> None:
    told = list[str]()

    def writes(text: str) -> Step:
        def work(agent: Agent) -> None:
            told.append(agent.request.instructions)
            agent.write({"a.txt": text, "more.md": "Shout.\n"})

        return work

    rounds = [writes("bad\n"), writes("good\n")]
    report, _ = scene.play({"a": rounds}, [item("a", ["a.txt", "more.md"], A_GOOD, repairCap=1)])
    assert verdicts(report) == {"a": "verified"}
    assert len(told) == 2
    assert all("Speak softly." in one and "Carry a stick." in one for one in told)
    assert not [one for one in told if "Shout" in one]


@pytest.mark.more
@on_scene
def test_a_named_owner_may_change_them(scene: Scene) -> None:
    agent = lambda agent: agent.write({"a.txt": "good\n", "CLAUDE.md": "New.\n"})  # noqa: E731
    report, _ = scene.play({"a": agent}, [item("a", ["a.txt", "CLAUDE.md"], A_GOOD)])
    assert verdicts(report) == {"a": "verified"}
