"""Every route, every role, every environment: who may and who may not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from tabellion.accounts.roles import PERSON_ROLES, ROLES, Role
from tabellion.accounts.sessions import Ticket
from tabellion.config import Config
from tabellion.errors import ConfigurationError
from tabellion.web.policy import OPEN
from tests.models.bills import bill
from tests.waiting import eventually
from tests.web.browser import Browser, signed_in
from tests.web.live import Live, live, problem
from tests.web.policy import EVERY_PAGE, EVERY_ROUTE, EVERYTHING

GUARDED = sorted((method, path) for (method, path), role in EVERY_ROUTE.items() if isinstance(role, Role))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application with two environments."""
    folder = tmp_path_factory.mktemp("two")
    with live(
        folder, {name: f"sqlite:///{folder}/{name}.db" for name in ("prod", "dev_2")}, pipelines=EVERYTHING
    ) as one:
        yield one


@pytest.fixture(scope="module")
def owned(two: Live) -> dict[str, str]:
    """A document of each environment."""
    return {name: two.upload(bill(), key=two.key("operator", name))["id"] for name in two.urls}


def address(path: str, id: str) -> str:  # noqa: A002
    """Return a route's path with its parameters filled in."""
    return path.replace("{id}", id).replace("{number}", "1").replace("{file}", "docs.js").replace("{kind}", "json")


def test_the_routes_are_exactly_those_of_the_policy(two: Live) -> None:
    """The application has exactly the routes that the policy names."""
    served = {
        (method, route.path)
        for route in two.app.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert served == set(EVERY_ROUTE)
    assert len(served) == len(two.app.routes)
    assert served == set(two.app.state.policy)


def test_a_route_missing_from_the_policy_cannot_be_created(tmp_path: Path) -> None:
    """Deny by default: a missing role is noticed before anything is served."""
    from fastapi import APIRouter

    from tabellion.pipeline import Pipeline
    from tabellion.web.app import make_app
    from tabellion.web.blueprint import Blueprint
    from tabellion.web.routing import Guarded

    router = APIRouter(route_class=Guarded)
    router.get("/api/forgotten")(lambda: None)

    class Forgetful(Pipeline):
        name = "forgetful"

        def blueprint(self) -> Blueprint:
            return Blueprint(routers=(router,))

    with pytest.raises(ConfigurationError, match="GET /api/forgotten has no policy"):
        make_app(Config(data=tmp_path), [], [Forgetful()])


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_route_requires_a_key(two: Live, owned: dict[str, str], method: str, path: str) -> None:
    """None, one of another kind, a wrong secret, another environment's name: 401."""
    where = address(path, owned["prod"])
    stranger = two.ask(method, where, key=None)
    if method == "GET" and (method, path) in EVERY_PAGE:
        assert stranger.status_code == 303
        assert stranger.headers["location"].startswith("/sign-in")
    else:
        assert "Bearer" in problem(stranger, 401, "auth_missing")["fix"]
    good = two.key("admin")
    other = two.key("admin", "dev_2")
    forged = [
        good[:-1] + ("0" if good[-1] != "0" else "1"), good.replace("_prod_", "_dev_2_"), good.replace("_prod_", "_x_"),
        other.replace("_dev_2_", "_prod_"), "tab_prod", "x" * 5000,
    ]  # fmt: skip
    for key in forged:
        answer = two.ask(method, where, key=key)
        problem(answer, 401, "auth_invalid")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert key not in answer.text
    problem(two.ask(method, where, key=None, headers={"Authorization": f"Basic {good}"}), 401, "auth_invalid")
    cookies = {"Cookie": f"key={good}; session={good}"}
    assert two.ask(method, where, key=None, headers=cookies).status_code == stranger.status_code


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_route_admits_its_role_and_those_above(
    two: Live, owned: dict[str, str], method: str, path: str, role: str
) -> None:
    """Below the required role 403, naming it; from it on neither 401 nor 403."""
    needed = EVERY_ROUTE[(method, path)]
    assert isinstance(needed, Role)
    if method == "DELETE" and path == "/api/documents/{id}":
        where = address(path, "0" * 26)
    elif path.endswith("/events"):
        where = address(path, "0" * 26) if "{id}" in path else path + "?unknown=1"
    else:
        where = address(path, owned["prod"])
    by_key = two.ask(method, where, key=two.key(role))
    by_session = None
    if role in PERSON_ROLES:
        by_session = signed_in(two, role).ask(method, where, headers={"Accept": "text/html, */*"})
    for answer in filter(None, (by_key, by_session)):
        if ROLES[role] >= needed:
            assert answer.status_code not in (401, 403), answer.text
            assert answer.status_code < 500
        elif answer is by_session and (method, path) in EVERY_PAGE:
            assert answer.status_code == 403
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
        else:
            error = problem(answer, 403, "role_required")
            assert error["detail"].startswith(f"requires the role {needed.word}")


@pytest.mark.parametrize("path", sorted(path for method, path in EVERY_ROUTE if method == "GET"))
def test_head_is_get_without_its_body(two: Live, owned: dict[str, str], path: str) -> None:
    """The same status for every role and environment; streams do not stay open."""
    where = address(path, owned["prod"])
    for key in (None, "tab_prod_nonsense", two.key("viewer"), two.key("admin"), two.key("admin", "dev_2")):
        head = two.ask("HEAD", where, key=key)
        assert head.content == b""
        assert head.headers["x-request-id"]
        if head.status_code == 200 and path.endswith("/events"):
            continue  # streams never end
        get = two.get(where, key=key)
        assert head.status_code == get.status_code
        assert head.headers.get("content-type") == get.headers.get("content-type")


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path in GUARDED if "{id}" in path])
def test_documents_of_another_environment_are_not_found(
    two: Live, owned: dict[str, str], method: str, path: str
) -> None:
    """404 as for one that never existed, in both directions, and the document stays."""
    for mine, theirs in (("prod", "dev_2"), ("dev_2", "prod")):
        answer = two.ask(method, address(path, owned[theirs]), key=two.key("admin", mine))
        never = two.ask(method, address(path, "0" * 26), key=two.key("admin", mine))
        problems, unknown = problem(answer, 404, "not_found"), problem(never, 404, "not_found")
        assert problems | {"request_id": ""} == unknown | {"request_id": ""}
        assert signed_in(two, "admin", mine).ask(method, address(path, owned[theirs])).status_code == 404
        assert two.get(f"/api/documents/{owned[theirs]}", key=two.key("viewer", theirs)).status_code == 200


def test_a_session_is_valid_for_its_environment_only(two: Live, owned: dict[str, str]) -> None:
    """Its list is its own, and its cookie is void under another environment's name."""
    browser = signed_in(two, "viewer", "prod")
    rows = browser.get("/api/documents").json()["documents"]
    assert owned["dev_2"] not in [row["id"] for row in rows]
    moved = Browser(two, Ticket("dev_2", browser.ticket.secret))
    problem(moved.get("/api/documents"), 401, "session_ended")


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_key_takes_precedence_over_a_session(two: Live, owned: dict[str, str], method: str, path: str) -> None:
    """A request with an Authorization header is judged by the key alone, whatever its cookies."""
    admin = signed_in(two, "admin")
    headers = {**admin.cookie, "X-CSRF-Token": admin.token}
    where = address(path, owned["prod"])
    for key in ("", "Bearer", "Basic YWRtaW46YWRtaW4=", f"Bearer {two.key('admin')[:-1]}x"):
        answer = two.ask(method, where, key=None, headers={**headers, "Authorization": key})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


def test_lists_show_their_own_environment_only(two: Live, owned: dict[str, str]) -> None:
    """The same file in two environments is two documents; cursors are not valid in the other."""
    for name in two.urls:
        rows = two.get("/api/documents", key=two.key("viewer", name)).json()["documents"]
        assert [row["id"] for row in rows] == [owned[name]]
    two.upload(bill("second"), key=two.key("operator", "prod"))
    cursor = two.get("/api/documents?limit=1", key=two.key("viewer", "prod")).json()["next"]
    assert cursor
    problem(two.get(f"/api/documents?cursor={cursor}", key=two.key("viewer", "dev_2")), 422, "cursor_invalid")


def test_files_of_environments_are_separate(two: Live, owned: dict[str, str], tmp_path: Path) -> None:
    """Deleting in one leaves the other's file alone."""
    one = two.upload(bill("apart"), key=two.key("operator", "prod"))["id"]
    other = two.upload(bill("apart"), key=two.key("operator", "dev_2"))["id"]
    assert two.ask("DELETE", f"/api/documents/{one}", key=two.key("operator", "prod")).status_code == 204
    assert two.get(f"/api/documents/{other}/file", key=two.key("viewer", "dev_2")).status_code == 200


def test_open_routes_need_no_key(two: Live) -> None:
    """Health, docs and sign-in answer without a key, and an invalid key does not matter."""
    for (method, path), role in EVERY_ROUTE.items():
        if role is OPEN and method == "GET":
            expected = 503 if path == "/readyz" else 200  # no worker is running
            assert two.ask(method, address(path, ""), key=None).status_code == expected, path
            assert two.ask(method, address(path, ""), key="nonsense").status_code == expected, path


def test_roles_are_ordered() -> None:
    """Each may do what those before it may; the first is for keys only."""
    assert list(ROLES) == ["metrics", "viewer", "reviewer", "operator", "admin"]
    assert list(PERSON_ROLES) == ["viewer", "reviewer", "operator", "admin"]
    assert sorted(Role) == list(Role)


def test_a_key_for_metrics_reads_nothing_else(two: Live) -> None:
    """Of all routes with a role, it opens exactly one."""
    opened = [route for route, role in EVERY_ROUTE.items() if isinstance(role, Role) and role <= Role.METRICS]
    assert opened == [("GET", "/api/metrics")]


def test_a_revoked_or_expired_key_is_refused(two: Live) -> None:
    """At once."""
    short = two.make_key("admin", "prod", seconds=0.001)
    created_at = two.store("prod", lambda store: store.now())
    eventually(lambda: two.store("prod", lambda store: store.now()) > created_at + 0.01)  # the database's clock decides
    problem(two.get("/api/documents", key=short), 401, "auth_invalid")
    from tabellion.accounts import keys

    key = two.make_key("viewer", "prod")
    assert two.get("/api/documents", key=key).status_code == 200
    parsed = keys.parse(key)
    assert parsed is not None
    assert two.store("prod", lambda store: keys.revoke(store, "prod", parsed.id))
    problem(two.get("/api/documents", key=key), 401, "auth_invalid")
