"""A wave whose agents and tests print this machine's secrets in every way shows none of them.

The searched texts are everything that the wave leaves on disk, says, sends and asks: the saved
outputs, events, journal, reports, prompts, notices, the pull request, the terminal, and what
`logs` and `serve` show.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shlex
import sqlite3
import string
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.agent_waves import ROOT, Place, Task, Wave, a_number, make_place, run_wave
from tests.support.beside import beside
from tests.support.forges import fake_gh
from tests.support.interpreter import PYTHON

pytestmark = pytest.mark.skipif(os.name == "nt", reason="scripts are not programs on Windows")

SEED = 20231
IN_A_FILE = 5  # every fifth secret is in a file, the others are variables

ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda one: base64.b64encode(one.encode()).decode(),
    "base64 after one": lambda one: base64.b64encode(b"u" + one.encode()).decode()[2:],
    "base64 after two": lambda one: base64.b64encode(b"u:" + one.encode()).decode()[3:],
    "base64 for URLs": lambda one: base64.urlsafe_b64encode(one.encode()).decode(),
    "hex": lambda one: one.encode().hex(),
    "hex in capitals": lambda one: one.encode().hex().upper(),
    "URL": lambda one: quote(one, safe=""),
    "JSON": lambda one: json.dumps(one)[1:-1],
    "shell": shlex.quote,
    "reversed": lambda one: one[::-1],
    "split over lines": lambda one: "\n".join(one[at : at + 7] for at in range(0, len(one), 7)),
}


def secrets_of_this_machine(count: int) -> dict[str, str]:
    """Names and values: short and long ones, also with signs that encodings change."""
    rng = random.Random(SEED)
    plain, signs = string.ascii_letters + string.digits, "+/=-_!$&\"'\\ <>%:;#e"
    made = {}
    for number in range(count):
        chars = plain + signs * (number % 2)
        length = rng.choice((14, 20, 32, 40, 64))
        middle = "".join(rng.choice(chars) for _ in range(length - 2))
        made[f"LAB_TOKEN_{number}"] = f"k{middle}7"
    return made


def spelled(secret: str) -> Iterator[tuple[str, str]]:
    """The spellings of a secret that a text may not have, without what depends on neighbours."""
    for name, encode in ENCODINGS.items():
        text = encode(secret)
        yield name, text[1:-4] if "base64" in name else text
        yield f"{name}, in JSON", json.dumps(text[1:-4] if "base64" in name else text)[1:-1]


def found_in(text: str, secrets: Mapping[str, str]) -> list[str]:
    return [
        f"{name} ({how})"
        for name, secret in secrets.items()
        for how, one in spelled(secret)
        if one in text
    ]


# Prints the lines of a file: whole, in two writes, with colors, on stderr, as JSON, and beyond
# what is kept of a long output.
PRINT = """\
import json, os, sys
def show(path):
    lines = json.load(open(path))
    for line in lines:
        half = len(line) // 2
        for part in (line[:half], line[half:], "\\n"):
            os.write(1, part.encode())
        print(json.dumps({"type": "text", "text": line}), flush=True)
        sys.stderr.write("error: " + line + "\\n")
        sys.stderr.flush()
    for shift in range(0, 24, 6):
        os.write(1, b"." * (16_384 - shift))
        os.write(1, lines[shift % len(lines)].encode() + b"\\n")
"""
AGENT = """\
#!{python} -S
import os, sys
from pathlib import Path
sys.path.insert(0, {seen!r})
from show_all import show
slug, phase = os.environ["TIDEGATE_ITEM"], os.environ["TIDEGATE_PHASE"]
with open({seen!r} + "/prompts", "a", encoding="utf-8") as log:
    log.write(sys.stdin.read())
show({seen!r} + "/lines.json")
if os.environ.get("TIDEGATE_ARTIFACT_FILE"):
    Path(os.environ["TIDEGATE_ARTIFACT_FILE"]).write_text(open({seen!r} + "/lines.json").read())
number = 6 if (slug, phase) == ("bravo", "build") or slug == "charlie" else 7
Path(slug + ".py").write_text("def value():\\n    return %d\\n" % number, encoding="utf-8")
if slug == "delta":
    sys.exit("failed: " + open({seen!r} + "/lines.json").read())
"""
NOTICE = """\
#!{python} -S
import sys
open({seen!r} + "/notice", "a").write(sys.stdin.read())
"""


def task(slug: str, seen: Path) -> Task:
    plain = a_number(slug)
    told = (
        f"import sys\nsys.path.insert(0, {str(seen)!r})\nfrom show_all import show\n"
        f"show({str(seen / 'lines.json')!r})\n"
    )
    test = plain.test.replace(
        "assertEqual(value(), 7)",
        f"assertEqual(value(), 7, open({str(seen / 'lines.json')!r}).read())",
    )
    return Task(slug, plain.prompt, plain.unfinished, told + test)


def program(path: Path, text: str, seen: Path) -> str:
    path.write_text(text.format(python=PYTHON[0], seen=str(seen)), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def place_with(folder: Path, secrets: Mapping[str, str]) -> tuple[Place, Path, dict[str, str]]:
    """A machine with these secrets, the folder of what is sent out, and the variables."""
    seen, root = folder / "seen", folder / "machine"
    seen.mkdir()
    root.mkdir()
    (seen / "show_all.py").write_text(PRINT, encoding="utf-8")
    lines = [
        f"{how}: {encode(one)} ." for one in secrets.values() for how, encode in ENCODINGS.items()
    ]
    (seen / "lines.json").write_text(json.dumps(lines), encoding="utf-8")
    names = list(secrets)
    in_file = {name: secrets[name] for name in names[::IN_A_FILE]}
    (folder / "keys.json").write_text(json.dumps(in_file), encoding="utf-8")
    agent, notice = program(seen / "agent", AGENT, seen), program(seen / "tell", NOTICE, seen)
    settings = (
        f'[backend]\nname = "command"\ncommand = ["{agent}"]\n[review]\nmode = "off"\n'
        f'[secrets]\nfiles = ["{folder / "keys.json"}"]\n'
        f'[notify]\ncommand = ["{notice}"]\n[ship]\npr = "draft"\n'
    )
    slugs = ("alpha", "bravo", "charlie", "delta")
    made = make_place(root, [task(slug, seen) for slug in slugs], settings)
    forge = fake_gh(seen)
    path = f"{forge.bin}{os.pathsep}{made.environment['PATH']}"
    environ = {name: one for name, one in secrets.items() if name not in in_file}
    return made, seen, environ | {"PATH": path, "GH_REPO": "acme/lab"}


def asked(place: Place, environ: Mapping[str, str], *words: str) -> str:
    """What the command `tidegate` prints in the place."""
    command = [
        *PYTHON,
        str(ROOT / "driver" / "tidegate.py"),
        *words,
        "--state-dir",
        str(place.state),
    ]
    done = subprocess.run(
        command, cwd=place.repo, env=place.environment | dict(environ), check=False,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


def texts_of(place: Place, seen: Path, wave: Wave) -> Iterator[tuple[str, str]]:
    """Everything that the wave left and sent, by its place."""
    yield "stdout", wave.stdout
    yield "stderr", wave.stderr
    for path in place.state.rglob("*"):
        if path.is_file() and path.suffix != ".patch":
            yield str(path.relative_to(place.state)), path.read_bytes().decode("utf-8", "replace")
    with sqlite3.connect(place.state / "tracker_events.db") as store:
        for number, payload in enumerate(store.execute("SELECT payload FROM events")):
            yield f"event {number}", payload[0]
    for name in ("prompts", "notice", "log.jsonl", "requests.json"):
        found = list(seen.rglob(name))
        assert found, f"nothing was sent to {name}"
        text = found[0].read_text(encoding="utf-8")
        if name == "log.jsonl":  # what `gh` was asked; its environment is the user's own
            calls = map(json.loads, text.splitlines())
            text = json.dumps([[call["argv"], call["body"]] for call in calls])
        yield name, text
    listing = ["git", "-C", str(place.remote), "cat-file", "--batch-all-objects", "--batch"]
    objects = subprocess.run(listing, check=True, capture_output=True).stdout
    yield "commits", objects.decode("utf-8", "replace")


@pytest.mark.parametrize("count", [5, pytest.param(50, marks=pytest.mark.sweep)])
@beside
def test_no_text_of_a_wave_shows_a_secret(folder: Path, count: int) -> None:
    secrets = secrets_of_this_machine(count)
    place, seen, environ = place_with(folder, secrets)
    wave = run_wave(place, environ)
    assert wave.shipped == {"alpha", "bravo"}, wave.stdout + wave.stderr
    leaks = {
        where: found
        for where, text in texts_of(place, seen, wave)
        if (found := found_in(text, secrets))
    }
    assert leaks == {}
    wave_id = wave.report["wave"]["wave_id"]
    outputs = list((place.state / "runs" / wave_id / "charlie").rglob("*.out"))
    assert outputs
    bare = {
        str(path): text[-300:]
        for path in outputs
        if "[LAB_TOKEN_1]" not in (text := path.read_text(encoding="utf-8", errors="replace"))
    }
    assert bare == {}
    for words in (("logs", "charlie", "--lines", "0"), ("status",), ("report",)):
        assert found_in(asked(place, environ, *words), secrets) == [], words
