"""Checks whether the buckets of files can be reached."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping

from tabellion.errors import TabellionError
from tabellion.monitor.doctor import Finding
from tabellion.storage.lake import Lake

SECONDS = 10.0  #: to wait for a bucket


def examine_storages(places: Mapping[str, str]) -> list[Finding]:
    """Findings about those of these storages, by the key of the configuration, that are buckets."""
    buckets = {key: url for key, url in places.items() if url.startswith("s3://")}
    answers: dict[str, queue.Queue[str]] = {key: queue.Queue() for key in buckets}
    for key, url in buckets.items():
        # Nothing waits for a thread whose bucket does not answer.
        threading.Thread(target=lambda key=key, url=url: answers[key].put(_check(url)), daemon=True).start()
    findings = []
    for key, url in buckets.items():
        try:
            problem = answers[key].get(timeout=SECONDS)
        except queue.Empty:
            problem = f"it has not answered for {SECONDS:g} seconds"
        if problem:
            fix = f"correct {key}, the key in AWS_ACCESS_KEY_ID and its rights, or AWS_ENDPOINT_URL"
            findings.append(Finding("error", key, f"{url} cannot be used: {problem}", fix))
        else:
            findings.append(Finding("ok", key, f"{url} can be reached"))
    return findings


def _check(url: str) -> str:
    """What is wrong with a bucket; empty: nothing."""
    try:
        Lake(url).check()
    except (TabellionError, OSError) as error:
        return str(error)
    return ""
