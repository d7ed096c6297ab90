"""The policies by name, with their default rates."""

from __future__ import annotations

from tabellion.engine.gates.adaptive import Adaptive
from tabellion.engine.gates.limiter import Classic, Rates

PROFILES: dict[str, type[Adaptive] | type[Classic]] = {"adaptive": Adaptive, "classic": Classic}
DEFAULT_RATES = {"adaptive": Rates(5.0, 0.05, 1000.0), "classic": Rates(3.0, 1.0, 10.0)}
