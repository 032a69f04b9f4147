"""The plan of a wave before it creates anything, and the checks that it can run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import of_reviewer, review_driver_from
from driver.domain.reviews import is_required
from driver.domain.work_item import Manifest, parse_manifest
from driver.limits.admission import check_before_start
from driver.run_state.plan import Plan, Shipping, WaveOptions
from driver.run_state.state_folder import check_state_dir
from driver.terminal.check_result import CheckResult, require, tried
from driver.wave.item_pipelines import phase_drivers, with_pipelines
from driver.wave.preflight import (
    check_integration,
    check_needs,
    check_ready,
    preflight,
    shipping_checks,
    target_checks,
)
from driver.workspace.repository_info import RepositoryInfo
from state_store.values.lazy_dataclass import dataclass, replace
from tools.settings.load import load as load_settings


@dataclass(frozen=True)
class WaveRequest:
    """The request of a wave. With `state_dir` None there is no journal and no gate."""

    driver: AgentDriver
    manifest: Mapping[str, Any]
    state_dir: Path | None
    shipping: Shipping
    resume: bool
    options: WaveOptions


def wave_id_of(manifest: object) -> str:
    """The wave id of the manifest, else a new id."""
    named = manifest.get("wave_id") if isinstance(manifest, Mapping) else None
    return str(named or uuid.uuid4())


def check(request: WaveRequest, *, dry: bool = False) -> Plan:
    """Plans the wave, and raises for any problem that would stop it; changes nothing. A dry run
    needs no ready backend, no open gate and no usable state folder."""
    plan = plan_of(request, parse_manifest(request.manifest, new_wave_id=lambda: "not-begun"))
    if not dry:
        require(startable(request, plan))
        reviewing_driver(plan)
        phase_drivers(plan.items, plan.settings)
    if not dry and request.state_dir is not None:
        check_before_start(request.state_dir, plan.settings)
        check_state_dir(request.state_dir, request.options.repo)
    for top in plan.tops:
        plan.survey.check_repository(top, plan.settings.ship.remote)
    if dry:
        for top in plan.tops:
            require(target_checks(top, plan.survey, plan.settings.ship, plan.target))
    return plan


def startable(request: WaveRequest, plan: Plan) -> Iterator[CheckResult]:
    """Checks that agents can work, and that their work can be shipped as requested."""
    ship, shipping = plan.settings.ship, request.shipping
    for top in plan.tops:
        yield from target_checks(top, plan.survey, ship, plan.target)
    yield tried("backend", lambda: check_ready(request.driver))
    for top in plan.tops:
        yield from shipping_checks(top, plan.survey, ship, shipping)


def checked_plan(request: WaveRequest, manifest: Manifest) -> Plan:
    """Returns the plan that the caller has checked if it has these items, else a new checked plan.
    Unknown keys may differ: a claim changes them in the tracker."""
    checked = request.options.plan
    if checked is not None and len(checked.items) == len(manifest.items):
        pairs = list(zip(checked.items, manifest.items, strict=True))
        if all(replace(planned.item, extra=item.extra) == item for planned, item in pairs):
            items = tuple(replace(planned, item=item) for planned, item in pairs)
            return replace(checked, items=items)
    plan = plan_of(request, manifest)
    require(startable(request, plan))
    return plan


def plan_of(request: WaveRequest, manifest: Manifest) -> Plan:
    """The pre-flight. Raises PreflightError, InputError and CannotRunError."""
    options, shipping = request.options, request.shipping
    base_dir = Path(os.path.realpath(options.repo or shipping.expect_top or Path.cwd()))
    settings = options.settings or load_settings(project=base_dir)
    check_integration(settings.verify.integration)
    check_needs(manifest.items, settings.verify.exclusive)
    survey = options.survey or RepositoryInfo(settings.environ)
    items = preflight(manifest, request.driver, shipping, base_dir, survey)
    target = shipping.target or settings.ship.target or None
    items = with_pipelines(items, settings, survey, options.from_phase, target)
    return Plan(items, settings, survey, target)


def reviewing_driver(plan: Plan) -> AgentDriver | None:
    """The reviewer's own backend; None if it has none, or if no item needs a review. Raises
    CannotRunError if it is not ready, before an item is built that it could not review."""
    mode = plan.settings.review.mode
    shippable = (p.policy.require_review and p.home.top is not None for p in plan.items)
    if not any(is_required(required=required, mode=mode) for required in shippable):
        return None
    driver = review_driver_from(plan.settings)
    if driver is not None:
        check_ready(driver, of_reviewer)
    return driver
