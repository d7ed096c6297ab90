"""The settings of registries: which addresses visits of a site may reach."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion import config
from tabellion.net.guard import Blocked, vet_url
from tabellion.pipelines.registries.settings import settings_of

PORTAL = "http://127.0.0.1:8077"


def test_only_visits_of_the_portal_reach_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No visit reaches another port of this machine, and visits of another site do not reach the portal."""
    for name, value in (("USERNAME", "someone"), ("PASSWORD", "Canari-1")):
        monkeypatch.setenv(f"TABELLION_REGISTRY_RDPRM_{name}", value)
    (tmp_path / "rdprm.yaml").write_text(
        """name: rdprm
title: A public site
url: https://registry.example
tasks:
  rights:
    inputs: [name]
    steps: [{goto: ""}]
"""
    )
    variables = {"TABELLION_DATA": str(tmp_path), "TABELLION_REGISTRIES_PROFILES": str(tmp_path)}
    settings = settings_of(config.load(variables={**variables, "TABELLION_REGISTRIES_PORTAL": PORTAL}))

    def is_reached(url: str, profile: str) -> bool:
        try:
            asyncio.run(vet_url(url, settings.rules[profile]))
        except Blocked:
            return False
        return True

    assert is_reached(f"{PORTAL}/req", "req")
    assert not is_reached("http://127.0.0.1:8080/", "req")
    assert not is_reached("http://127.0.0.1:5432/", "req")
    assert not is_reached(f"{PORTAL}/req", "rdprm")
