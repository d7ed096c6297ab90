"""Metrics of the phases of websites, beyond those that every queue has."""

from __future__ import annotations

from tabellion.engine.store import Store
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.metrics.metric import MetricSource, Sample, environment_metric
from tabellion.pipelines.websites.health import PhaseHealth, measure
from tabellion.pipelines.websites.settings import WebsiteSettings

SLOTS = environment_metric(
    "tabellion_websites_phase_slots", "gauge", "Slots of a phase in all live workers, by state.", "phase", "state"
)
ATTEMPTS = environment_metric(
    "tabellion_websites_phase_attempts", "gauge", "Attempts of the last hour, by result.", "phase", "result"
)
RETRIES = environment_metric(
    "tabellion_websites_phase_retries", "gauge", "Attempts of the last hour that were not the first.", "phase"
)
SUCCESS = environment_metric(
    "tabellion_websites_phase_success_ratio", "gauge", "Share of the attempts of the last hour that succeeded.", "phase"
)
MEAN = environment_metric(
    "tabellion_websites_phase_mean_seconds", "gauge", "Mean time of a successful attempt of the last hour.", "phase"
)
SLOWEST = environment_metric("tabellion_websites_phase_slowest_seconds", "gauge", "The longest of them.", "phase")
BACKLOG = environment_metric("tabellion_websites_backlog_jobs", "gauge", "Jobs that wait for their visit.")
LIMIT = environment_metric(
    "tabellion_websites_backlog_limit_jobs", "gauge", "The backlog at which submissions are rejected."
)
METRICS = (SLOTS, ATTEMPTS, RETRIES, SUCCESS, MEAN, SLOWEST, BACKLOG, LIMIT)


def metrics_of(settings: WebsiteSettings) -> MetricSource:
    """The metrics, and how they are read."""

    async def read(store: Store, pace: AnswerCache) -> list[Sample]:
        health = await pace.answer(("websites", "health"), lambda: measure(store, settings))
        samples = [BACKLOG.sample(health["backlog"]), LIMIT.sample(health["backlog_limit"])]
        for phase in health["phases"]:
            samples += _phase(phase)
        return samples

    return MetricSource(METRICS, read)


def _phase(phase: PhaseHealth) -> list[Sample]:
    name, slots = phase["name"], phase["slots"]
    samples = [
        SLOTS.sample(slots["idle"], phase=name, state="idle"), SLOTS.sample(slots["busy"], phase=name, state="busy"),
        SLOTS.sample(slots["error"], phase=name, state="error"),
        ATTEMPTS.sample(phase["done"], phase=name, result="done"),
        ATTEMPTS.sample(phase["errors"], phase=name, result="error"), RETRIES.sample(phase["retries"], phase=name),
    ]  # fmt: skip
    for metric, value in ((SUCCESS, phase["success_rate"]), (MEAN, phase["seconds"]), (SLOWEST, phase["slowest"])):
        if value is not None:
            samples.append(metric.sample(value, phase=name))
    return samples
