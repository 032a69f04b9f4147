"""Reviewers that are programs, for the command backend: each obeys a line of Python of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.interpreter import ALONE

# `say` writes the verdict file; the words that it leaves out are those of an honest approval.
REVIEWER = """
import json, os, sys, time
prompt = sys.stdin.read()
noted = open({noted!r}, "a", encoding="utf-8")
noted.write(json.dumps([os.environ["TIDEGATE_ITEM"], os.getcwd(), prompt]) + chr(10))
noted.close()
round_ = int(os.environ["TIDEGATE_ATTEMPT"])
NONCE, FILE = os.environ["TIDEGATE_NONCE"], os.environ["TIDEGATE_VERDICT_FILE"]

def say(verdict="approve", **more):
    said = dict(nonce=NONCE, verdict=verdict, summary="seen", findings=[])
    write(json.dumps(dict(said, **more)))

def write(text):
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(text)

def ask(why="wrong", file="a.txt", line=1, severity="major"):
    found = dict(file=file, line=line, severity=severity, why=why, check="look again")
    say("request_changes", findings=[found])

with open(os.environ["TIDEGATE_USAGE_FILE"], "w") as file:
    file.write(json.dumps(dict(input_tokens=11, output_tokens=4)))
"""


class Reviewer:
    """The program in `folder` that runs `line`, and what it was shown."""

    def __init__(self, folder: Path, line: str) -> None:
        self._noted = folder / "reviews.jsonl"
        self.program = folder / "reviewer.py"
        script = REVIEWER.replace("{noted!r}", repr(str(self._noted)))
        self.program.write_text(f"{script}\n{line}\n", encoding="utf-8")

    def config(self, **more: Any) -> str:
        """Its part of the configuration; `more` are further keys of [review.backend]."""
        argv = [*ALONE, str(self.program)]
        keys = {"name": "command", "command": argv, "model": "critic", **more}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        return "\n".join(["[review.backend]", *lines, ""])

    def shown(self) -> list[Mapping[str, str]]:
        """By call: the item, the folder and the prompt."""
        if not self._noted.exists():
            return []
        names: Sequence[str] = ("item", "folder", "prompt")
        calls = self._noted.read_text(encoding="utf-8").splitlines()
        return [dict(zip(names, json.loads(call), strict=True)) for call in calls]
