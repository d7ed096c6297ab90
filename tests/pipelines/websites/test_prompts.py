"""Prompts: what is sent fits the budget and is what was stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tabellion.pipelines.websites.prompts import Prompt, form_prompt
from tabellion.pipelines.websites.relevance import count_tokens
from tabellion.pipelines.websites.site.info import PageInfo
from tests.pipelines.websites.sites import settings_in, website


@pytest.mark.parametrize("name", ["profile", "seo", "trust"])
@pytest.mark.parametrize("budget", [1500, 3000, 8000])
def test_a_prompt_fits_its_budget(tmp_path: Path, name: str, budget: int) -> None:
    """System, user and schema together, however long the website is."""
    kind = replace(settings_in(tmp_path).get_type(name), budget=budget)
    pages = tuple(
        PageInfo(f"https://a.example/{page}", "link", text=f"Sentence of page {page}. " * 3000) for page in range(5)
    )
    prompt = form_prompt(kind, website(pages=pages))
    assert prompt.tokens <= budget
    assert prompt.tokens == count_tokens(prompt.system) + count_tokens(prompt.user) + count_tokens(
        json.dumps(prompt.schema)
    )


def test_a_prompt_has_the_facts_and_the_text(tmp_path: Path) -> None:
    """In the language that was asked for, and survives storing byte for byte."""
    prompt = form_prompt(settings_in(tmp_path).get_type("profile"), website(), "fr")
    for part in ("https://birch.example/", "Heading 1: Wooden toys", "hello@birch.example", "beech from managed"):
        assert part in prompt.user
    assert "Write values in French" in prompt.system
    assert "{" not in prompt.system
    again = Prompt.from_json(prompt.as_json())
    assert again.as_json() == prompt.as_json()
    assert (again.user, again.system) == (prompt.user, prompt.system)
