"""A `gh` that is a script: it writes down what it was asked and keeps its pull requests in a file.

It answers as the real one is documented to: JSON lists, the address of a new request on stdout, a
complaint on stderr and exit 1. What the real one does beside that was not seen here.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCRIPT = """#!{python} -S
import json, os, pathlib, sys

folder = pathlib.Path({folder!r})
words = sys.argv[1:]
flags = dict(w[2:].partition("=")[::2] for w in words if w.startswith("--") and "=" in w)
head = words[words.index("--head") + 1] if "--head" in words else flags.get("head")
file = flags.get("body-file")
body = pathlib.Path(file).read_text(encoding="utf-8") if file else None
seen = {{"argv": words, "cwd": os.getcwd(), "env": dict(os.environ), "body": body}}
with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
    log.write(json.dumps(seen) + "\\n")
orders = json.loads((folder / "orders.json").read_text())
if orders.get("fail"):
    sys.exit(orders["fail"])
known = folder / "requests.json"
there = json.loads(known.read_text()) if known.exists() else []
mine = [r for r in there if r.get("repo", flags.get("repo")) == flags.get("repo")]
if words[:2] == ["pr", "list"]:
    print(json.dumps([r for r in mine if r["headRefName"] == head]))
elif words[:2] == ["pr", "create"]:
    branch = head.split(":")[-1]
    if any(r["headRefName"] == branch for r in mine):
        sys.exit(f'a pull request for branch "{{branch}}" into branch "main" already exists')
    number = len(there) + 1
    url = f"https://github.com/{{flags['repo']}}/pull/{{number}}"
    there.append({{"number": number, "url": url, "state": "OPEN", "isDraft": "--draft" in words,
                  "repo": flags["repo"], "headRefName": branch,
                  "headRepositoryOwner": {{"login": "acme"}}}})
    known.write_text(json.dumps(there))
    print(url)
    if orders.get("late"):
        sys.exit(orders["late"])
"""


@dataclass(frozen=True)
class FakeGh:
    """`bin` goes on the PATH."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def order(self, **orders: str) -> None:
        """`fail`: every call ends with exit 1 and this on stderr; `late`: after it was made."""
        (self.folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.folder / "log.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def created(self) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["argv"][:2] == ["pr", "create"]]

    @property
    def requests(self) -> list[dict[str, Any]]:
        known = self.folder / "requests.json"
        found: list[dict[str, Any]] = json.loads(known.read_text()) if known.exists() else []
        return found

    def people(self, *requests: dict[str, Any]) -> None:
        """What is there already, as `gh` lists it."""
        (self.folder / "requests.json").write_text(json.dumps(requests), encoding="utf-8")


def fake_gh(folder: Path) -> FakeGh:
    made = FakeGh(folder)
    made.bin.mkdir(parents=True)
    script = made.bin / "gh"
    script.write_text(_SCRIPT.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    script.chmod(0o755)
    made.order()
    return made
