"""Renders pages: a template with its texts, the current user, and the security headers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Coroutine, Iterable
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import jinja2
from fastapi import Request, Response
from starlette.responses import RedirectResponse

from tabellion import messages
from tabellion.accounts.keys import Holder
from tabellion.accounts.roles import Role
from tabellion.web import cookies, csrf
from tabellion.web.blueprint import NavItem
from tabellion.web.environment import ServedEnvironment
from tabellion.web.headers import PAGE_POLICY, last_resort
from tabellion.web.pages import static
from tabellion.web.problems import Problem
from tabellion.web.routing import Guarded

HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
THEMES = ("light", "dark")
#: The navigation of every installation; entries that the user may not see are hidden.
PLACES = (
    NavItem("/dashboard", "base.nav_dashboard", "chart", 30, below=("/queues",), home_of=(Role.OPERATOR, Role.ADMIN)),
    NavItem("/people", "base.nav_people", "people", order=90),
)


class PageRoute(Guarded):
    """A route that answers with a page: redirects to the sign-in, and errors are pages too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["include_in_schema"] = False
        if "GET" in (options.get("methods") or ()):
            options["responses"] = HTML | (options.get("responses") or {})
        super().__init__(*arguments, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind its checks; errors are a page, or a problem if the request has a key."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await answer(request)
            except Exception as error:
                if "authorization" in request.headers or request.method != "GET":
                    raise
                problem = last_resort(error, request.state.request_id)
                return to_sign_in(request) if problem.status == 401 else error_page(request, problem)

        return handle


def page(
    request: Request, template: str, *, status: int = 200, also: Iterable[str] = (), spoken: bool = False,
    **context: Any,
) -> Response:  # fmt: skip
    """Renders a template as a response.

    Its variables are `t` (its texts), `static` (URLs of files), `lang`, `theme`, `me`, `nav` and the context.
    Its script gets `data`, and the texts of `base`, of fields, of the template's own name and of `also`; if
    `spoken`, every message in the page's language.
    """
    language = language_of(request)
    holder: Holder | None = getattr(request.state, "holder", None)
    secret = _secret(request)
    template_name = template.rpartition(".")[0]
    me = _me(request, holder)
    facts = {"me": me, "csrf": csrf.token(secret) if secret else "", "language": language}
    text = _environment().get_template(template).render(
        t=functools.partial(messages.translate, language), static=static.address, lang=language,
        theme=theme_of(request), languages=messages.LANGUAGES, me=me, nav=_nav(request), facts=facts,
        words=messages.select_page_texts(language, ("base", "fields", template_name, *also)), path=request.url.path,
        data=context.pop("data", {}), messages=_messages(request, language) if spoken else None, **context,
    )  # fmt: skip
    headers = {"Content-Security-Policy": PAGE_POLICY, "Content-Language": language, "Vary": "Cookie, Accept-Language"}
    response = Response(text, status, headers, "text/html; charset=utf-8")
    if holder is None and "authorization" not in request.headers:
        csrf.remember(request, response, secret)
    return response


def _messages(request: Request, language: str) -> dict[str, Any] | None:
    """The messages, and the titles of fields; None for English, which is the language of the data."""
    if language == messages.DEFAULT:
        return None
    environment: ServedEnvironment = request.state.environment
    titles = {name: title for served in environment.served.values() for name, title in served.titles().items()}
    return {"messages": messages.domain(language, "messages"), "fields": titles}


def error_page(request: Request, problem: Problem) -> Response:
    """The page of a problem."""
    has_text = f"base.error_{problem.code}" in messages.domain(messages.DEFAULT, "pages")
    key = f"base.error_{problem.code}" if has_text else "base.error_other"
    response = page(
        request, "error.html", status=problem.status, problem=problem, sentence=key, known=has_text,
        request_id=request.state.request_id,
    )  # fmt: skip
    response.headers.update(problem.headers)
    return response


def to_sign_in(request: Request) -> Response:
    """A redirect to the sign-in page, which leads back here afterwards."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query = "" if target == "/" else f"?next={quote(target, safe='/')}"
    return RedirectResponse(f"/sign-in{query}", 303)


def local(path: str | None) -> str:
    """A path to redirect to; the start page instead of anything that may lead to another site."""
    is_local = path is not None and path.startswith("/") and path.isprintable() and "\\" not in path
    return path if path and is_local and not path.startswith("//") else "/"


def language_of(request: Request) -> str:
    """The user's setting, else the browser's cookie, else its `Accept-Language`."""
    holder: Holder | None = getattr(request.state, "holder", None)
    if holder is not None and holder.language in messages.LANGUAGES:
        return holder.language
    chosen = request.cookies.get(cookies.LANGUAGE) if "authorization" not in request.headers else None
    return chosen if chosen in messages.LANGUAGES else negotiate_language(request.headers.get("accept-language", ""))


def negotiate_language(header: str) -> str:
    """The supported language of an Accept-Language header with the highest quality."""
    candidates: list[tuple[float, int, str]] = []
    for position, part in enumerate(header.split(",")[:20]):
        tag, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
        try:
            quality = float(weight)
        except ValueError:
            continue
        language = tag.partition("-")[0]
        if language in messages.LANGUAGES and quality > 0:
            candidates.append((-quality, position, language))
    return min(candidates)[2] if candidates else messages.DEFAULT


def theme_of(request: Request) -> str:
    """`light` or `dark` from the cookie; empty for the system's setting."""
    theme = request.cookies.get(cookies.THEME, "")
    return theme if theme in THEMES and "authorization" not in request.headers else ""


def icons() -> set[str]:
    """The names of the icons of the pages."""
    text = (files("tabellion.web") / "templates" / "_icons.html").read_text(encoding="utf-8")
    return set(re.findall(r'id="i-([a-z]+)"', text))


def home(request: Request) -> str:
    """The path of the start page of the user's role."""
    role: Role = request.state.holder.role
    places: list[NavItem] = request.app.state.places
    visible = [place for place in places if _may_see(request, place)]
    return next((place for place in visible if role in place.home_of), visible[0]).path


def _secret(request: Request) -> str:
    ticket = request.app.state.auth.ticket(request) if getattr(request.state, "holder", None) else None
    if ticket is not None:
        return str(ticket.secret)
    return "" if "authorization" in request.headers else csrf.visit(request)


def _me(request: Request, holder: Holder | None) -> dict[str, Any] | None:
    if holder is None:
        return None
    several = len(request.app.state.auth.environments) > 1
    return {
        "name": holder.name, "role": holder.role.word, "level": int(holder.role), "environment": holder.environment,
        "several": several, "user": holder.user is not None, "available": holder.available,
    }  # fmt: skip


def _is_below(path: str, place: NavItem) -> bool:
    """Whether a page belongs to a navigation entry: its path starts with the entry's path or one of `below`."""
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in (place.path, *place.below))


def _may_see(request: Request, place: NavItem) -> bool:
    role: Role | None = request.app.state.policy.get(("GET", place.path))
    holder: Holder | None = getattr(request.state, "holder", None)
    return role is not None and holder is not None and holder.role >= role


def _nav(request: Request) -> list[dict[str, Any]]:
    path = request.url.path
    return [
        {"path": place.path, "word": place.word, "icon": place.icon, "here": _is_below(path, place)}
        for place in request.app.state.places
        if _may_see(request, place)
    ]


@functools.cache
def _environment() -> jinja2.Environment:
    packages = [package for package in static.packages() if (files(package) / "templates").is_dir()]
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(package, "templates") for package in packages])
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        auto_reload=False,
    )  # fmt: skip
