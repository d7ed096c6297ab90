"""A store on each database, with a clock that only the test moves."""

from __future__ import annotations

from tests.monitor.conftest import clock, store

__all__ = ["clock", "store"]
