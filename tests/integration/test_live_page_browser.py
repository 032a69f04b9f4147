"""The live page in a real browser, if there is one: hostile text is inert, memory bounded."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from driver.live_page.feed import Feed
from driver.live_page.server import LivePageServer
from state_store.database.store import EventStore
from tests.support.waves import Scene, item

EVIL = "<img src=x onerror=\"fetch('/pwned')\"><script>document.title='PWNED'</script>\n"
# Two hours of two states a second, through the page's own function.
MANY = """n => {
  const now = Date.now() / 1000;
  const item = (i, k) => ({index: i, name: "item-" + i, tone: "lively", phase: "repair " + k,
    state: "running", spans: Array.from({length: 1 + k % 40}, (_, j) => ({phase: "build",
      started: now - 3000 + j * 40, ended: now - 3000 + j * 40 + 35, why: ""})), tokens: k, cost: 1,
    unknown: false, repairs: 1, agent: "", sign: now, last: "x".repeat(200) + k, reason: "",
    commit: null, branch: ""});
  for (let k = 0; k < n; k++) {
    take({now, version: k, wave: {...wave, running: true, finished: null},
      items: [item(k % 20, k)], lines: ["y".repeat(120) + k, "z" + k]});
  }
  return [lines.length, document.querySelectorAll("*").length];
}"""


@pytest.fixture
def chromium() -> Any:
    made = pytest.importorskip("playwright.sync_api", reason="needs playwright and chromium")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs chromium")
    with made.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("states", [30, pytest.param(3_000, marks=pytest.mark.more)])
def test_hostile_text_is_inert_and_hours_of_events_fit(
    chromium: Any, tmp_path: Path, states: int
) -> None:
    scene = Scene(tmp_path, {"README": "r", "evil": EVIL})
    red = item("a", "a.txt", "cat evil; exit 1", repairCap=0)
    scene.play({"a": lambda agent: agent.write({"a.txt": EVIL})}, [red])
    requests, said = list[str](), list[str]()
    with EventStore(scene.state / "tracker_events.db") as store:
        feed = Feed(store, scene.state)
        feed.look()
        with LivePageServer(feed, "token", scene.environ) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                page = chromium.new_page()
                page.on("request", lambda one: requests.append(one.url))
                page.on("pageerror", lambda error: said.append(str(error)))
                page.goto(server.address, wait_until="domcontentloaded")
                page.locator("button.item").first.click()
                page.locator("#pane", has_text="onerror").wait_for()
                page.locator("#show-diff").click()
                page.locator("#pane", has_text="+<img").wait_for()
                page.locator("#close").click()
                assert page.title().startswith("1 of 1, ended")
                assert page.locator("img").count() == 0
                kept, elements = page.evaluate(MANY, states)
                page.close()
            finally:
                server.is_over.set()
                server.shutdown()
                thread.join()
    assert said == []
    assert [url for url in requests if not url.startswith(server.address) or "pwned" in url] == []
    assert kept <= 500
    assert elements < 2_000
