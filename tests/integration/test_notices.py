"""A notice tells a program or a webhook that a wave is over, and changes nothing else."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from driver.notices.notice import PARKED, facts_of, payload, plain
from driver.notices.send import without_secrets
from state_store.documents.errors import InputError
from state_store.views.wave_progress import WaveProgress, fold
from tests.support.waves import Agent, Scene, item, writes
from tools import halt
from tools.settings.load import load

GREEN = "test -f a.txt"
ITEMS = [item("a", "a.txt", GREEN)]
KEPT = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"


class Hook(HTTPServer):
    """A webhook on this machine, which answers with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status = status
        self.bodies: list[Any] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/T0/SECRETPATH"


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Hook)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(json.loads(body))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


@contextmanager
def hook(status: int = 200) -> Iterator[Hook]:
    with Hook(status) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def a_scene(folder: Path, notify: str, **environ: str) -> Scene:
    return Scene(folder, {"README": "r"}, config=f"[notify]\n{notify}\n", environ=environ)


def run(scene: Scene) -> dict[str, Any]:
    report, _ = scene.play({"a": writes(a__txt="x")}, ITEMS)
    return report


def test_a_program_and_a_webhook_get_the_notice_of_a_wave(tmp_path: Path) -> None:
    kept = tmp_path / "notice.json"
    argv = json.dumps([sys.executable, "-c", KEPT, str(kept)])
    with hook() as server:
        scene = a_scene(tmp_path, f'command = {argv}\nwebhook = "{server.address}"')
        assert run(scene)["exit_code"] == 0
    told = json.loads(kept.read_text(encoding="utf-8"))
    assert (told["event"], told["items"], told["shipped"], told["tokens"]) == ("ended", 1, 1, 100)
    assert told["verdicts"] == {"a": "shipped"}
    assert told["text"].startswith("tidegate: wave w1 ended; shipped 1 of 1 item; branch wave/")
    assert server.bodies == [{"text": told["text"]}]
    assert "notice" not in scene.said.getvalue()
    snapshot = (scene.state / "runs" / "w1" / "snapshot.json").read_text(encoding="utf-8")
    assert "SECRETPATH" not in snapshot


@pytest.mark.more
def test_a_halted_wave_tells_so(tmp_path: Path) -> None:
    with hook() as server:
        scene = a_scene(tmp_path, f'webhook = "{server.address}"')

        def halts(agent: Agent) -> None:
            halt.halt("lunch", scene.state)
            agent.write({"a.txt": "x"})

        report, _ = scene.play({"a": halts}, ITEMS)
    assert report["abort_reason"] == "halted"
    assert "halted" in server.bodies[0]["text"]
    assert "not shipped: a halted" in server.bodies[0]["text"]


@pytest.mark.more
def test_a_wave_that_was_halted_before_it_began_tells_so(tmp_path: Path) -> None:
    with hook() as server:
        scene = a_scene(tmp_path, f'webhook = "{server.address}"')
        halt.halt("lunch", scene.state)
        report, _ = scene.play({"a": writes(a__txt="x")}, ITEMS)
    assert report["aborted"]
    [told] = server.bodies
    assert told["text"].startswith("tidegate: wave w1 halted: ")
    assert "lunch" in told["text"]
    assert told["text"].endswith("; shipped 0 of 0 items; $0, 0 tokens; 0 s")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_fails_changes_nothing_and_is_told_without_its_address(
    tmp_path: Path, status: int
) -> None:
    with hook(status) as server:
        scene = a_scene(tmp_path, f'webhook = "{server.address}"')
        assert run(scene)["exit_code"] == 0
    assert len(server.bodies) == 1
    said = [line for line in scene.said.getvalue().splitlines() if "notice" in line]
    assert len(said) == 1
    assert f"webhook of 127.0.0.1: it answered with HTTP {status}" in said[0]
    assert "SECRETPATH" not in said[0]


@pytest.mark.more
@pytest.mark.parametrize(
    ("script", "limit_s", "why"),
    [
        ("raise SystemExit(3)", 60, "exit 3"),
        ("import time; time.sleep(60)", 0.5, "at its limit of 0.5 s"),
    ],
)
def test_a_program_that_fails_or_hangs_changes_nothing(
    tmp_path: Path, script: str, limit_s: float, why: str
) -> None:
    argv = json.dumps([sys.executable, "-c", script])
    scene = a_scene(tmp_path, f"command = {argv}\ntimeout_s = {limit_s}")
    assert run(scene)["exit_code"] == 0
    said = [line for line in scene.said.getvalue().splitlines() if "notice" in line]
    assert len(said) == 1
    assert "[notify] command" in said[0]
    assert why in said[0]


@pytest.mark.more
def test_a_server_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with hook() as server:
        address = server.address
    scene = a_scene(tmp_path, f'webhook = "{address}"')
    assert run(scene)["exit_code"] == 0
    said = [line for line in scene.said.getvalue().splitlines() if "notice" in line]
    assert len(said) == 1
    assert "SECRETPATH" not in said[0]


@pytest.mark.parametrize(
    "line",
    [
        'webhook = "http://example.org/x"',
        'webhook = "http://127.0.0.1.example.org/x"',
        'webhook = "http://localhost@example.org/"',
        'webhook = "ftp://127.0.0.1/"',
        'webhook = "https:///x"',
        'template = "[1]"',
        'template = "{broken"',
        'command = "one text"',
        "timeout_s = 0",
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(tmp_path: Path, line: str) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text(f"[notify]\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"notify.{line.partition(' ')[0]}"):
        load(project=tmp_path, config=config, environ={}, cwd=tmp_path)


def some_facts(reason: str | None = None) -> dict[str, Any]:
    return facts_of(WaveProgress("w1"), PARKED, reason, ("wave/x",))


def test_a_template_is_filled_in_its_texts_only() -> None:
    template = '{"content": "{event} {text}", "n": 1, "{text}": ["{wave}", "{nothing}"]}'
    filled = json.loads(payload(template, {"event": 'a"}', "text": "t", "wave": "w"}))
    assert filled == {"content": 'a"} t', "n": 1, "{text}": ["w", "{nothing}"]}


def test_a_notice_calls_nobody() -> None:
    facts = some_facts("<!channel> @everyone\x1b[31m &lt;")
    assert facts["reason"] == "(!channel) (at)everyone\\x1b[31m +lt;"
    assert set(plain("<@&>")) & set("<@&>") == set()


def test_a_notice_says_that_an_amount_is_unknown() -> None:
    known = some_facts()
    assert "; $0, 0 tokens;" in known["text"]
    bill = {"agent_id": "w1/a/1", "item": "a", "wave": "w1"}
    row = {"ts": 1.0, "stream": "agent_traces", "type": "agent_billed", "payload": bill}
    unknown = facts_of(fold("w1", [row]), PARKED, None, ())
    assert "; cost unknown, tokens unknown;" in unknown["text"]
    assert (known["lower_bound"], unknown["lower_bound"]) == (False, True)


def test_a_notice_holds_no_secret_of_the_environment() -> None:
    secret = "tok-5f4dcc3b5aa765d61d8327deb882cf99"
    facts = without_secrets(some_facts(f"the key {secret} is refused"), {"MY_API_KEY": secret})
    assert secret not in json.dumps(facts)
    assert facts["event"] == PARKED
