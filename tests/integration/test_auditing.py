"""Findings over several waves: recorded once, told when gone, proposed once, and never run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.execution.process_identity import holder_name, is_gone
from driver.run_state.leases import LeaseManager
from driver.scheduler.audit import WAVES, audited, past_of
from driver.scheduler.backlog import Backlog
from state_store import coordination
from state_store.api import StateAPI
from state_store.database import events
from state_store.views.export import state_md
from state_store.views.findings import record_findings
from tests.support.programs import Project, item, writes

pytestmark = pytest.mark.in_walls


def a_wave(api: StateAPI, name: str, verdict: str) -> dict[str, Any]:
    """Of the item `a`, as a cycle leaves it in the store."""
    phase = {"phase": "dispatch", "cycle": name}
    api.append(events.ORCHESTRATOR_STATUS, events.PHASE_CHANGED, phase)
    stream = events.wave_stream(name)
    judged = {"slug": "a", "number": 1, "verdict": verdict, "reason": "it wrote b.txt"}
    told = [
        (events.WAVE_STARTED, {"wave_id": name, "items": ["a"]}),
        (events.ATTEMPT_JUDGED, judged),
        (events.WAVE_FINISHED, {"aborted": False}),
    ]
    api.append_many(stream, told)
    return {"wave_id": name, "built": []}


@pytest.fixture
def backlog(tmp_path: Path) -> Iterator[Backlog]:
    tracker = tmp_path / "tracker.json"
    tracker.write_text(json.dumps({"version": 1, "items": [{"id": "A", "slug": "a"}]}))
    with StateAPI(tmp_path / "tracker_events.db") as api, LeaseManager(api.store, 60) as leases:
        yield Backlog(api, leases, tracker)


def after(backlog: Backlog, name: str, verdict: str, *, propose: bool = False) -> dict[str, Any]:
    backlog.sync()
    return audited(backlog, name, a_wave(backlog.api, name, verdict), propose=propose)


def in_file(backlog: Backlog) -> dict[str, dict[str, Any]]:
    items = json.loads(backlog.tracker.read_text())["items"]
    return {item["id"]: item for item in items}


def edit(backlog: Backlog, change: Any) -> None:
    document = json.loads(backlog.tracker.read_text())
    document["items"] = change(document["items"])
    backlog.tracker.write_text(json.dumps(document))


def test_a_finding_is_recorded_once_and_told_when_it_is_gone(backlog: Backlog) -> None:
    (new,) = after(backlog, "w1", "refused")["findings"]
    assert (new["kind"], new["subject"], new["wave"]) == ("refused_change", "A", "w1")
    assert new["text"] == "the work on A was refused in wave w1: it wrote b.txt"
    assert f"refused_change: {new['text']}" in state_md(backlog.api)
    assert after(backlog, "w2", "refused") == {}
    assert after(backlog, "w3", "verified") == {"findings_gone": [new]}
    assert "refused_change" not in state_md(backlog.api)
    assert after(backlog, "w4", "verified") == {}
    (again,) = after(backlog, "w5", "refused")["findings"]
    assert again["id"] == new["id"]
    stream = backlog.api.get(events.ORCHESTRATOR_STATUS)
    told = [e["payload"] for e in stream if e["type"] == events.AUDIT_FINDINGS_RECORDED]
    assert told == [
        {"findings": [new], "gone": [], "cycle": "w1"},
        {"findings": [], "gone": [new["id"]], "cycle": "w3"},
        {"findings": [again], "gone": [], "cycle": "w5"},
    ]


def test_what_others_record_as_findings_stays(backlog: Backlog) -> None:
    by_hand = {"findings": ["look at the disk", {"id": "mine", "text": "t"}]}
    kind = events.AUDIT_FINDINGS_RECORDED
    backlog.api.append(events.ORCHESTRATOR_STATUS, kind, by_hand)
    assert after(backlog, "w1", "verified") == {}
    assert "look at the disk" in state_md(backlog.api)


def test_findings_that_another_program_recorded_count_as_known(backlog: Backlog) -> None:
    found = {"audit-1": {"id": "audit-1", "text": "t"}}
    assert record_findings(backlog.api, found, "w1") == ([found["audit-1"]], [])
    told = {"findings": [{"id": "audit-2"}], "gone": ["audit-1"]}
    backlog.api.append(events.ORCHESTRATOR_STATUS, events.AUDIT_FINDINGS_RECORDED, told)
    assert record_findings(backlog.api, {"audit-2": {"id": "audit-2"}}, "w2") == ([], [])


def test_an_item_is_proposed_once_and_what_people_make_of_it_stays(backlog: Backlog) -> None:
    assert "findings_proposed" not in after(backlog, "w1", "refused")
    (name,) = after(backlog, "w2", "refused", propose=True)["findings_proposed"]
    proposed = in_file(backlog)[name]
    assert (proposed["status"], proposed["source"]) == ("proposed", "audit")
    assert proposed["title"] == "Look at why the work of an item was refused: A"
    edit(backlog, lambda items: [items[0], {**items[1], "title": "Mine", "priority": "P1"}])
    assert after(backlog, "w3", "refused", propose=True) == {}
    assert after(backlog, "w4", "verified", propose=True).keys() == {"findings_gone"}
    assert in_file(backlog)[name]["title"] == "Mine"
    assert in_file(backlog)[name]["notes"].endswith("Not found any more after wave w4.")
    edit(backlog, lambda items: items[:1])
    again = after(backlog, "w5", "refused", propose=True)
    assert again.keys() == {"findings"}
    assert list(in_file(backlog)) == ["A"]


def test_only_the_newest_waves_are_looked_at(backlog: Backlog) -> None:
    for number in range(WAVES + 5):
        report = a_wave(backlog.api, f"w{number}", "refused")
    past = past_of(backlog.api, report["wave_id"], report)
    assert [w["wave_id"] for w in past.waves] == [f"w{number}" for number in range(5, WAVES + 5)]


def test_a_lease_of_a_holder_that_is_gone_is_a_stale_claim_until_it_is_given_back(
    backlog: Backlog,
) -> None:
    store = backlog.api.store
    coordination.acquire(store, "repo//live", "somebody", ttl=600)
    coordination.acquire(store, "repo//mine", holder_name(), ttl=600)
    coordination.acquire(store, "repo//old", "somebody", ttl=1e-9)
    (found,) = after(backlog, "w1", "verified")["findings"]
    assert (found["kind"], found["subject"]) == ("stale_claim", "repo//old")
    coordination.release(store, "repo//old", "somebody")
    assert after(backlog, "w2", "verified") == {"findings_gone": [found]}
    name, _, mark = holder_name().partition("@")
    dead = f"{name}@1-{mark.partition('-')[2]}"  # began at another time than we did
    if is_gone(dead):  # not where processes are known by their numbers alone
        coordination.acquire(store, "repo//dead", dead, ttl=600)
        (found,) = after(backlog, "w3", "verified")["findings"]
        assert found["subject"] == "repo//dead"


def test_trouble_with_the_audit_is_a_warning(backlog: Backlog) -> None:
    report = a_wave(backlog.api, "w1", "refused")
    backlog.tracker.write_text("no tracker")
    told = audited(backlog, "w1", report, propose=True)
    assert told["audit_warning"].startswith("the audit is not complete: ")


@pytest.mark.more
def test_an_item_that_fails_night_after_night_is_proposed_and_the_proposal_never_run(
    project: Project,
) -> None:
    project.configure("[audit]\npropose = true\n[checkpoint]\ncommit = true\n")
    project.track(item("b", prompt=writes("b.txt", "bad"), attempts=2, lastError="red"))
    report = project.schedule().report
    found = {one["kind"]: one for one in report["findings"]}
    assert found.keys() == {"failing_item", "unmetered_backend"}
    assert found["failing_item"]["text"].startswith("item B failed in 3 waves and is not done: ")
    assert set(report["findings_proposed"]) == {one["id"] for one in found.values()}
    assert report["checkpoint"]["warning"] is None
    assert "failing_item: item B failed" in project.git("show", "tidegate/state:STATE.md")
    assert f"## Wave {report['wave_id']}" in project.git("show", "tidegate/state:BUILDLOG.md")
    assert project.item_now(found["failing_item"]["id"])["status"] == "proposed"
    document = json.loads(project.tracker.read_text())
    document["items"] = [one for one in document["items"] if one["id"] != "B"]
    project.track(*document["items"])
    again = project.schedule().report
    assert (again["phase"], again["items_selected"]) == ("intake", [])
