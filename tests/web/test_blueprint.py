"""What pipelines add to the application."""

from __future__ import annotations

from tabellion.web.blueprint import Blueprint, with_shared


def test_a_blueprint_shared_by_two_pipelines_is_there_once() -> None:
    """Sharing means the same object; an equal one is separate."""
    shared, alike = Blueprint(main_queue="x"), Blueprint(main_queue="x")
    first, second = Blueprint(shared=(shared,)), Blueprint(shared=(shared, alike))
    found = with_shared([first, second])
    assert [id(one) for one in found] == [id(one) for one in (first, shared, second, alike)]
