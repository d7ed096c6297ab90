"""One key cannot use the capacity of all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.web import request_rate
from tabellion.web.limits import RequestLimits
from tabellion.web.problems import Problem
from tabellion.web.request_rate import RequestLimiter
from tests.web.live import live, problem


def test_a_key_with_too_many_requests_gets_429(tmp_path: Path) -> None:
    """With Retry-After; other keys are served, and so are routes without a key."""
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}, limits=RequestLimits(rate=0.01, burst=300)) as web:
        answers = [web.get("/api/documents", key=web.key("viewer")) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert problem(answers[-1], 429, "too_many_requests")["limit"] == 0.01
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 100
        assert web.get("/api/documents", key=web.key("admin")).status_code == 200
        assert web.get("/healthz", key=web.key("viewer")).status_code == 200


def test_a_bucket_refills_every_second() -> None:
    """Two seconds' worth at once, then the refill rate; nothing with a rate of zero."""
    now = [100.0]
    one = RequestLimiter(RequestLimits(rate=10.0, burst=2.0), lambda: now[0])
    for _ in range(20):
        one.check("a")
    with pytest.raises(Problem, match="more than 10 requests per second"):
        one.check("a")
    now[0] += 0.5
    for _ in range(5):
        one.check("a")
    with pytest.raises(Problem):
        one.check("a")
    now[0] += 1000
    for _ in range(20):
        one.check("a")
    with pytest.raises(Problem):
        one.check("a")
    free = RequestLimiter(RequestLimits(rate=0), lambda: now[0])
    for _ in range(1000):
        free.check("a")


def test_idle_callers_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose bucket is full again; one that exceeds its rate is not forgotten."""
    monkeypatch.setattr(request_rate, "MOST", 3)
    now = [100.0]
    one = RequestLimiter(RequestLimits(rate=1.0, burst=2.0), lambda: now[0])
    one.check("old")
    one.check("older")
    now[0] += 10
    one.check("busy")
    one.check("busy")
    one.check("new")
    assert set(one._left) == {"busy", "new"}
    with pytest.raises(Problem):
        one.check("busy")
