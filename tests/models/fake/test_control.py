"""Server-wide settings: all changed or none."""

from __future__ import annotations

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.fake.control import Control
from tabellion.models.fake.quota import BUCKET


def test_an_invalid_change_changes_nothing() -> None:
    """With one invalid value the old settings stay."""
    control = Control(rate=5, latency="0.5-2")
    for wrong in ({"rate": 9, "knobs": "nonsense"}, {"rate": -1}, {"speed": 3}, {"latency": "soon"}):
        with pytest.raises(ConfigurationError):
            control.change(wrong)
    assert (control.report()["rate"], control.report()["latency"]) == (5, "0.5-2")


def test_a_setting_can_be_removed() -> None:
    """null means no limit, no delay."""
    control = Control(rate=5, latency=1, knobs="503")
    control.change({"rate": None, "latency": None, "knobs": ""})
    chosen = control.knobs("", "")
    assert (chosen.rate, chosen.latency, chosen.chances) == (None, None, {})


def test_the_same_seed_gives_the_same_faults() -> None:
    """Two servers with one seed have the same faults in the same order; another seed, others."""

    def faults(seed: int) -> list[bool]:
        control = Control(knobs="503=0.5", seed=seed)
        return ["503" in control.draw_knobs(control.knobs("", "")) for _ in range(64)]

    assert faults(1) == faults(1) != faults(2)


def test_requests_of_one_rate_share_a_quota() -> None:
    """Two requests that name the same rate share its tokens; another rate or window has its own."""
    control = Control()
    assert [control.take_quota(1, BUCKET) > 0 for _ in range(3)] == [False, False, True]
    assert control.take_quota(2, BUCKET) == 0
    assert control.take_quota(1, ("fixed", 1000.0)) == 0


def test_a_changed_rate_applies_to_the_current_window() -> None:
    """Raised or lowered for the whole server: earlier requests still count."""
    control = Control(rate=0.01, knobs="window=sliding:1000")

    def passes() -> bool:
        chosen = control.knobs("", "")
        assert chosen.rate is not None
        return not control.take_quota(chosen.rate, chosen.window)

    assert [passes() for _ in range(11)] == [True] * 10 + [False]
    control.change({"rate": 0.012})
    assert [passes() for _ in range(3)] == [True, True, False]
    control.change({"rate": 0.005})
    assert not passes()
