"""The live page watches a wave to its end, and gives nothing to others."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from driver.execution.worker_pool import repeating
from driver.live_page.feed import Feed
from driver.live_page.server import MOST_CONNECTIONS, MOST_HEADER_BYTES, LivePageServer
from state_store.api import StateAPI
from state_store.database.store import EventStore
from tests.support.waves import Agent, Scene, item, writes
from tools import halt

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "the-token"
PATIENCE_S = 60.0
EVIL = "\x1b[31m<script>alert(1)</script>\u202e\n"


@contextmanager
def served(
    state: Path, environ: Mapping[str, str], wave: str | None = None, **more: Any
) -> Iterator[LivePageServer]:
    state.mkdir(exist_ok=True)
    with EventStore(state / "tracker_events.db") as store:
        feed = Feed(store, state, wave)
        feed.look()
        with LivePageServer(feed, TOKEN, environ, **more) as server, repeating(0.02, feed.look):
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield server
            finally:
                server.is_over.set()
                server.shutdown()
                thread.join()


def ask(
    server: LivePageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, Mapping[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def messages(
    server: LivePageServer, failures: Sequence[BaseException] = ()
) -> Iterator[dict[str, Any]]:
    """The messages of a stream, as a browser gets them, until there is one of `failures`."""
    return messages_at(server.server_port, failures)


def messages_at(port: int, failures: Sequence[BaseException] = ()) -> Iterator[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"
        while (line := answer.readline()) and not failures:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    finally:
        connection.close()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {"README": "r"})


def with_a_wave(folder: Path) -> Scene:
    """A scene with a wave that is over: one item shipped, one failed after hostile output."""
    made = Scene(folder, {"README": "r", "evil": EVIL})
    red = item("b", "b.txt", "cat evil; exit 1", repairCap=0)
    items = [item("a", "a.txt", "test -f a.txt"), red]
    made.play({"a": writes(a__txt="<b>x</b>\n"), "b": writes(b__txt="y\n")}, items)
    return made


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A wave that is over, for tests that only look at it."""
    return with_a_wave(tmp_path_factory.mktemp("done"))


@pytest.fixture
def own(tmp_path: Path) -> Scene:
    """A wave that is over, for one test."""
    return with_a_wave(tmp_path)


def test_a_wave_of_twenty_items_is_watched_to_its_end(scene: Scene) -> None:
    slugs = [f"i{n}" for n in range(20)]
    items = [item(slug, f"{slug}.txt", f"test -f {slug}.txt") for slug in slugs]
    watching, seen, state = threading.Event(), dict[str, set[str]](), list[dict[str, Any]]()

    def agent(agent: Agent) -> None:
        assert watching.wait(PATIENCE_S)
        agent.write({f"{agent.request.environment['TIDEGATE_ITEM']}.txt": "x"})

    failures = list[BaseException]()

    def play() -> None:
        try:
            scene.play(dict.fromkeys(slugs, agent), items)
        except BaseException as failure:  # the stream would not end
            failures.append(failure)
            raise

    with served(scene.state, scene.environ) as server:
        run = threading.Thread(target=play)
        run.start()
        for message in messages(server, failures):
            for one in message["items"]:
                seen.setdefault(one["name"], set()).add(one["phase"])
            state += [message["wave"]] if "wave" in message else []
            if any("build" in phases for phases in seen.values()):
                watching.set()
            if state and state[-1]["finished"]:
                break
        run.join()
        assert failures == []
        *_, last = [state[-1]]
    assert sorted(seen) == sorted(slugs)
    assert all(phases & {"shipped"} for phases in seen.values())
    assert (last["counts"]["done"], last["shipped"], last["running"]) == (20, 20, False)
    assert (last["tokens"], last["cost_usd"]) == (2000, 0.2)


def test_the_page_shows_output_and_diff_as_plain_text(done: Scene) -> None:
    with served(done.state, done.environ) as server:
        _, headers, text = ask(server, "/")
        assert headers["Content-Security-Policy"].count("'nonce-") == 2
        assert "Access-Control-Allow-Origin" not in headers
        assert text.count("nonce=") == 2
        shown = json.loads(ask(server, "/items/1/output?name=test-1.out")[2])
        assert "test-1.out" in shown["names"]
        assert shown["text"] == "\\x1b[31m<script>alert(1)</script>\\u202e\n"
        diff = json.loads(ask(server, "/items/0/diff")[2])
        assert "+<b>x</b>" in diff["text"]
        assert "+y" in json.loads(ask(server, "/items/1/diff")[2])["text"]


@pytest.mark.parametrize(
    "path",
    [
        "/items/2/output",
        "/items/-1/output",
        "/items/0/other",
        "/items/0/output/../../x",
        "/../etc/passwd",
        "/page.html",
        "/stop",
    ],
)
def test_there_is_nothing_else(done: Scene, path: str) -> None:
    with served(done.state, done.environ) as server:
        assert ask(server, path)[0] == 404


def test_only_the_outputs_of_the_item_are_read(own: Scene) -> None:
    folder = own.state / "runs" / "w1" / "a"
    for name in ("secret", "x.out"):
        (own.folder / name).write_text("SECRET", encoding="utf-8")
    (folder / "link.out").symlink_to(own.folder / "secret")
    (folder / "loop").symlink_to(own.folder)
    names = ("../b/test-1.out", "/etc/passwd", "..%2f..%2freport.json", "link.out", "loop/x.out")
    with served(own.state, own.environ) as server:
        for name in names:
            shown = json.loads(ask(server, f"/items/0/output?name={name}")[2])
            assert shown["name"] != name
            assert not {"link.out", "loop/x.out"} & set(shown["names"])
            assert "SECRET" not in shown["text"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example.org"},
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/events", "/items/0/output", "/items/0/diff"])
def test_another_origin_gets_nothing(done: Scene, headers: dict[str, str], path: str) -> None:
    with served(done.state, done.environ) as server:
        status, answered, text = ask(server, path, **headers)
    assert status == 403
    assert "Access-Control-Allow-Origin" not in answered
    assert json.loads(text).keys() == {"said"}


def test_the_runs_are_stopped_only_with_the_token_from_the_own_page(own: Scene) -> None:
    with served(own.state, own.environ) as server:
        page = f"http://127.0.0.1:{server.server_port}"
        refused = [
            {"X_Tidegate_Token": TOKEN},
            {"Origin": page},
            {"Origin": page, "X_Tidegate_Token": "wrong"},
            {"Origin": "https://example.org", "X_Tidegate_Token": TOKEN},
        ]
        for headers in refused:
            assert ask(server, "/stop", "POST", **headers)[0] == 403
        assert ask(server, f"/stop?token={TOKEN}", "POST", Origin=page)[0] == 404
        assert ask(server, "/stop", "GET", X_Tidegate_Token=TOKEN)[0] == 404
        assert ask(server, "/", "DELETE", Origin=page)[0] == 501
        assert not halt.is_halted(own.state)
        assert ask(server, "/stop", "POST", Origin=page, X_Tidegate_Token=TOKEN)[0] == 200
        assert halt.is_halted(own.state)


def test_headers_and_bodies_are_bounded(done: Scene) -> None:
    with served(done.state, done.environ) as server:
        assert ask(server, "/", X_Long="x" * MOST_HEADER_BYTES)[0] in (400, 403)
        own = f"http://127.0.0.1:{server.server_port}"
        assert ask(server, "/stop", "POST", Origin=own, Content_Length="99999")[0] == 403


def test_clients_that_say_nothing_do_not_keep_others_out_for_long(done: Scene) -> None:
    with served(done.state, done.environ, patience_s=0.5) as server:
        address = ("127.0.0.1", server.server_port)
        silent = [socket.create_connection(address) for _ in range(MOST_CONNECTIONS)]
        for one in silent:  # each is dropped after its time, and not before it is served
            one.settimeout(PATIENCE_S)
            assert one.recv(1) == b""
            one.close()
        assert ask(server, "/")[0] == 200


def test_a_client_that_drips_is_dropped_after_the_time_of_a_request(done: Scene) -> None:
    with (
        served(done.state, done.environ, patience_s=0.5) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as one,
    ):
        one.settimeout(0.05)
        for _ in range(2000):
            try:
                one.sendall(b"G")
                assert one.recv(1) == b""
                return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("the client was still served")


@pytest.mark.parametrize(
    ("request_line", "more", "status"),
    [
        ("GET / HTTP/1.1", "host: {own}", 200),
        ("GET / HTTP/1.1", "Host: {own}\r\nHost: {own}", 403),
        ("GET / HTTP/1.1", "Host: {own}\r\norigin: https://example.org", 403),
        ("GET / HTTP/1.1", "Host: {own}\r\nOrigin: http://{own}\r\nORIGIN: null", 403),
        ("GET http://[/ HTTP/1.1", "Host: {own}", 404),
        ("POST /stop HTTP/1.1", "Host: {own}\r\nOrigin: http://{own}\r\nContent-Length: \xb2", 403),
        ("HEAD / HTTP/1.1", "Host: {own}", 501),
        ("<b>x</b> / HTTP/1.1", "Host: {own}", 501),
        pytest.param("GET / HTTP/1.1", "\r\n".join(["X: y"] * 200), 431, id="many"),
    ],
)
def test_each_answer_has_the_headers_that_protect_it(
    done: Scene, request_line: str, more: str, status: int
) -> None:
    with served(done.state, done.environ) as server:
        own = f"127.0.0.1:{server.server_port}"
        with socket.create_connection(("127.0.0.1", server.server_port)) as one:
            one.settimeout(PATIENCE_S)
            asked = f"{request_line}\r\n{more.format(own=own)}\r\n\r\n"
            one.sendall(asked.encode("latin-1"))
            head = one.makefile("rb").read().partition(b"\r\n\r\n")[0].decode("latin-1")
    assert head.split()[1] == str(status)
    assert "\r\nContent-Security-Policy: default-src 'none'" in head
    assert "\r\nX-Content-Type-Options: nosniff" in head


@pytest.mark.parametrize("fault", ["removed", "damaged"])
def test_a_page_whose_store_is_gone_says_so(own: Scene, fault: str) -> None:
    database = own.state / "tracker_events.db"
    with EventStore(database) as store:
        feed = Feed(store, own.state)
        feed.look()
        assert feed.since(-1)[1]["wave"]["notes"] == ["ended: shipped 1 of 2"]
        if fault == "removed":
            database.unlink()
        else:
            database.write_bytes(b"no database" * 1000)
        feed.look()
        notes = feed.since(-1)[1]["wave"]["notes"]
    assert notes[1].startswith("this page stands still: ")


def test_the_page_goes_over_to_a_database_that_was_built_anew(own: Scene) -> None:
    database, kept = own.state / "tracker_events.db", own.folder / "old.db"
    with EventStore(database) as store:
        feed = Feed(store, own.state)
        feed.look()
        database.rename(kept)
        feed.look()
        assert feed.since(-1)[1]["wave"]["notes"][1].startswith("this page stands still: ")
        shutil.copyfile(kept, database)
        with StateAPI(database) as api:
            api.append("wave:w1", "attempt_started", {"slug": "a", "number": 9, "phase": "repair"})
        feed.look()
        told = feed.since(-1)[1]
    assert told["wave"]["notes"] == ["ended: shipped 1 of 2"]
    assert [one["repairs"] for one in told["items"]] == [1, 0]


def test_a_stream_that_nobody_reads_keeps_no_memory(own: Scene) -> None:
    """What a slow client has missed is not kept for it; the next read gives the newest state."""
    with StateAPI(own.state / "tracker_events.db") as api:
        feed = Feed(api.store, own.state)
        feed.look()
        version, first = feed.since(-1)
        assert [one["name"] for one in first["items"]] == ["a", "b"]
        for number in range(300):
            step = "build" if number % 2 else "repair"
            api.append("wave:w1", "attempt_started", {"slug": "a", "number": number, "phase": step})
            feed.look()
        _, later = feed.since(version)
        assert len(later["items"]) == 1
        assert len(later["lines"]) <= 200
        assert feed.since(feed.since(-1)[0])[1]["items"] == []


def test_the_page_follows_the_newest_wave_or_the_one_asked_for(own: Scene) -> None:
    own.play({"c": writes(c__txt="x")}, [item("c", "c.txt", "test -f c.txt")], wave_id="w2")
    for wave, name in ((None, "c"), ("w1", "a")):
        with served(own.state, own.environ, wave) as server:
            assert next(messages(server))["items"][0]["name"] == name


# A shell that runs the tests in the background makes them ignore Ctrl-C.
HEARS_CTRL_C = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("driver", run_name="__main__", alter_sys=True)
"""


def test_serve_prints_its_address_and_ends_with_ctrl_c(done: Scene) -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            HEARS_CTRL_C,
            "serve",
            "--wave",
            "w",
            "--state-dir",
            str(done.state),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": str(done.folder)},
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("page:").strip()
            port = int(address.rpartition(":")[2].strip("/"))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
            assert next(messages_at(port))["wave"]["wave_id"] == "w1"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("flags", [[], ["--json"], ["--port", "70000"]])
def test_serve_says_what_is_wrong(tmp_path: Path, flags: list[str]) -> None:
    command = [sys.executable, "-m", "driver", "serve", "--state-dir", str(tmp_path), *flags]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
