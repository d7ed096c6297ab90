"""Profile files: shipped ones, custom ones, and errors with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries import profile_file
from tabellion.reading.types.yamlnode import TypeFileError

PORTAL = "http://127.0.0.1:1"
WRONG = """\
name: Wrong Name
url: ftp://example.com
colour: red
login:
  - goto: /
problems:
  gone: ["no more"]
  no_result: []
tasks:
  index:
    inputs: [lot]
    sample: {plot: "1"}
    steps:
      - goto: /index
      - fill: {selector: "#lot", value: "{parcel}"}
      - fill: {selector: "#lot"}
      - clik: "#go"
      - click: "#go"
        wait_for: "#list"
      - click: "#go"
        if: parcel
"""


@pytest.mark.parametrize("name", ["registre-foncier", "req", "rdprm"])
def test_the_shipped_profiles_have_a_sample_for_every_task(name: str) -> None:
    """They load without an error, and `registry check` can run them."""
    profile = profile_file.load(name, portal=PORTAL)
    assert profile.url.startswith(PORTAL)
    assert all(task.sample.get(one) for task in profile.tasks.values() for one in task.inputs)


def test_every_error_is_reported_with_its_line() -> None:
    """All errors are reported at once, with their lines and the known values."""
    with pytest.raises(TypeFileError) as raised:
        profile_file.read(WRONG, "wrong.yaml", PORTAL)
    found = {mistake.line: f"{mistake.what} {mistake.fix}" for mistake in raised.value.mistakes}
    for line, words in {
        2: "is not a web address", 3: "unknown key 'colour'", 4: "login requires login_form", 7: "unknown key 'gone'",
        12: "unknown key 'plot'", 15: "unknown input {parcel}", 16: "fill requires value", 17: "did you mean 'click'",
        18: "a step does one thing", 21: "if is one of lot",
    }.items():  # fmt: skip
        assert words in found[line], (line, found.get(line))
    names = [str(mistake) for mistake in raised.value.mistakes if mistake.line == 1]
    assert any("small letters" in mistake for mistake in names)
    assert any("the file is called wrong.yaml" in mistake for mistake in names)


def test_passwords_are_for_logins_only() -> None:
    """A task cannot write a password into a form."""
    text = "name: a\nurl: https://a.example\ntasks:\n  t:\n    steps:\n      - goto: '/?{password}'\n"
    with pytest.raises(TypeFileError, match=r"unknown input \{password\}"):
        profile_file.read(text)


def test_a_custom_profile_comes_first(tmp_path: Path) -> None:
    """A custom file of the same name takes precedence over the shipped one."""
    text = (profile_file.SHIPPED / "req.yaml").read_text().replace('"{portal}/req"', "https://req.example/search")
    (tmp_path / "req.yaml").write_text(text)
    assert profile_file.load("req", [tmp_path]).url == "https://req.example/search"
    with pytest.raises(ConfigurationError, match=r"unknown profile 'rec'; known: .*req"):
        profile_file.load("rec", [tmp_path])
