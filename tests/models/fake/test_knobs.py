"""Knobs: every valid and every invalid way to write them."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.fake.knobs import KNOBS, Latency, knobs, latency_of


def test_a_text_of_several_knobs() -> None:
    """Knobs are separated by commas; a number after = belongs to the knob."""
    chosen = knobs("latency=0.5, truncate, rate=20")
    assert chosen.latency == Latency(0.5, 0.5)
    assert chosen.rate == 20
    assert chosen.chances == {"truncate": 1.0}


def test_a_window_goes_with_a_rate() -> None:
    """Its kind and its length; by default a bucket of one second."""
    assert knobs("rate=10,window=fixed:20").window == ("fixed", 20.0)
    assert knobs("rate=10").window == ("bucket", 1.0)
    with pytest.raises(ConfigurationError, match="window=weekly"):
        knobs("rate=10,window=weekly")


def test_the_most_specific_setting_wins() -> None:
    """The header overrides the model's name, and that the server, knob by knob."""
    chosen = knobs("rate=5,latency=1", "rate=9", "latency=0")
    assert chosen.rate == 9
    assert chosen.latency == Latency(0, 0)


@pytest.mark.parametrize(
    ("text", "status", "after", "form", "chance"),
    [
        ("429", "429", 30.0, "full", 1.0),
        ("429=36", "429", 36.0, "full", 1.0),
        ("429=36:10%", "429", 36.0, "full", 0.1),
        ("429bare", "429", 30.0, "bare", 1.0),
        ("429text=7", "429", 7.0, "text", 1.0),
        ("429header=50%", "429", 30.0, "header", 0.5),
        ("429,hint=text", "429", 30.0, "text", 1.0),
        ("503=0.1", "503", 30.0, "full", 0.1),
        ("503=10%", "503", 30.0, "full", 0.1),
    ],
)
def test_statuses_and_their_probability(text: str, status: str, after: float, form: str, chance: float) -> None:
    """A 429 takes seconds, other statuses a probability; both take a percentage."""
    chosen = knobs(text)
    assert (chosen.after, chosen.hint) == (after, form)
    assert chosen.chances == {status: pytest.approx(chance)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slow", "unknown knob 'slow'; known: rate, window, latency"),
        ("rate=0", "rate=0: not a valid value"),
        ("rate", "rate=: not a valid value"),
        ("latency=soon", "latency=soon"),
        ("503=7", "must be a probability"),
        ("hint=loud", "it is one of full, text, header, bare"),
    ],
)
def test_an_invalid_knob_is_explained(text: str, said: str) -> None:
    """The error lists the known ones."""
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        knobs(text)


def test_latencies_stay_in_their_bounds_and_repeat() -> None:
    """A fixed, a uniform and an exponential latency; the same seed gives the same seconds."""
    dice = Random(1)
    assert latency_of("3").draw(dice) == 3
    assert all(0.5 <= latency_of("0.5-2").draw(dice) <= 2 for _ in range(100))
    drawn = [latency_of("exp:2").draw(Random(7)) for _ in range(2)]
    assert drawn[0] == drawn[1] > 0
    assert sum(latency_of("exp:2").draw(dice) for _ in range(4000)) / 4000 == pytest.approx(2, rel=0.1)
    assert latency_of("exp:0").draw(dice) == 0


def test_probabilities_are_met() -> None:
    """A probability of one tenth is met about every tenth time, at the same places in every run."""
    chosen = knobs("503=0.1,drip")
    met = [chosen.draw(dice) for dice in [Random(3)] for _ in range(2000)]
    assert sum("503" in one for one in met) == pytest.approx(200, abs=50)
    assert all("drip" in one for one in met)
    again = [chosen.draw(dice) for dice in [Random(3)] for _ in range(2000)]
    assert met == again


def test_every_knob_is_documented() -> None:
    """docs/reference/fake-model.md lists exactly the existing knobs."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "fake-model.md").read_text()
    assert set(re.findall(r"^\| `([\w]+)(?:=[^`]*)?` \|", text, re.MULTILINE)) == set(KNOBS)
