"""Dispatches items as plain dicts, for programs written for the original project.

The engine itself dispatches with `driver.agents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.backend_api.driver import EFFORT_NORMAL, ROLE_WORKER, AgentDriver, WorkerRequest
from driver.domain.results import BUILD
from driver.domain.tiers import verification_policy

ROUTE_HARNESS = "harness"
ROUTE_DRIVER = "driver"


def build_manifest_item(driver: AgentDriver, item: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `item` with its model and the policy of the backend's tier as fields.

    Raises ValueError, naming the backend, for a tier that has no policy.
    """
    caps = driver.probe_capabilities()
    try:
        policy = verification_policy(caps)
    except ValueError as error:
        raise ValueError(f"backend {caps.name} has no usable tier: {error}") from error
    return {
        **item,
        "model": driver.resolve_model(ROLE_WORKER) or None,
        "verificationTier": caps.recommended_verification_tier,
        "repairCap": policy["repair_cap"],
        "requireAdversarialReview": policy["require_adversarial_review"],
        "spotCheckFrac": policy["spot_check_frac"],
        "validateAllJson": policy["validate_all_json"],
    }


def dispatch_item(
    driver: AgentDriver, item: Mapping[str, Any], workdir: str | None = None
) -> dict[str, Any]:
    """Run an agent on a plain item, then its test, in an existing folder: no clone, no ship.

    Keys of the answer: route, ok, testExit, filesWritten (None if nothing is known), error,
    workerId, verified, and reason if there is no test command: then the agent runs, and nothing is
    proven. `ok` and `verified` depend only on exit code 0.
    """
    has_files = driver.probe_capabilities().worker_filesystem_access
    answer: dict[str, Any] = {
        "route": ROUTE_HARNESS if has_files else ROUTE_DRIVER,
        "ok": False,
        "testExit": None,
        "filesWritten": None,
        "error": None,
        "workerId": None,
        "verified": False,
    }
    if not item.get("testCmd"):
        answer["reason"] = "no_test_command"
    folder = workdir or item.get("workdir") or item.get("workDir") or "."
    try:
        return {**answer, **_dispatch_and_test(driver, item, folder)}
    except Exception as error:  # noqa: BLE001 - the source's contract: an exception is an answer
        return {**answer, "error": f"dispatch_item internal error: {error}"}


def _dispatch_and_test(driver: AgentDriver, item: Mapping[str, Any], folder: str) -> dict[str, Any]:
    request = WorkerRequest(
        prompt=str(item.get("prompt", "")),
        owned_files=tuple(item.get("ownsFiles") or ()),
        workdir=folder,
        model=item.get("model"),
        label=f"dispatch:{item.get('slug')}",
        phase=item.get("phase"),
        effort=item.get("effort") or EFFORT_NORMAL,
        environment={"TIDEGATE_ITEM": str(item.get("slug")), "TIDEGATE_PHASE": BUILD},
    )
    result = driver.dispatch_worker(request)
    work = {"workerId": result.worker_id, "filesWritten": list(result.files_written)}
    if not result.ok:
        return {**work, "error": f"dispatch_worker failed: {result.error}"}
    if not item.get("testCmd"):
        return {**work, "error": "no testCmd: nothing can be proven"}
    test = driver.run_command(item["testCmd"], cwd=folder)
    green = test.exit_code == 0 and test.ok
    error = None if green else f"test failed with exit {test.exit_code}"
    return {**work, "testExit": test.exit_code, "ok": green, "verified": green, "error": error}
