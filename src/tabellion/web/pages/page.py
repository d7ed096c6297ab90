"""A page: a template with its words, who looks at it, and the headers that keep it ours."""

from __future__ import annotations

import functools
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
#: What the header leads to in every installation; shown are those that the person may see.
PLACES = (
    NavItem("/dashboard", "base.nav_dashboard", "chart", 30, below=("/queues",), home_of=(Role.OPERATOR, Role.ADMIN)),
    NavItem("/people", "base.nav_people", "people", order=90),
)


class PageRoute(Guarded):
    """A route whose answer people look at: strangers are sent to the sign-in, and errors are pages too."""

    def __init__(self, *given: Any, **options: Any) -> None:
        options["include_in_schema"] = False
        if "GET" in (options.get("methods") or ()):
            options["responses"] = HTML | (options.get("responses") or {})
        super().__init__(*given, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind its checks; what they refuse is told as a page, or as a problem to who has a key."""
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
    """A template as an answer.

    It knows `t` (its words), `static` (addresses of files), `lang`, `theme`, `me`, `nav` and what is given here.
    Its script finds `data`, and the texts of `base`, of fields, of the template's own name and of `also`; if
    `spoken`, every message in the page's language.
    """
    language = language_of(request)
    holder: Holder | None = getattr(request.state, "holder", None)
    secret = _secret(request)
    own = template.rpartition(".")[0]
    me = _me(request, holder)
    facts = {"me": me, "csrf": csrf.token(secret) if secret else "", "language": language}
    text = _environment().get_template(template).render(
        t=functools.partial(messages.translate, language), static=static.address, lang=language,
        theme=theme_of(request), languages=messages.LANGUAGES, me=me, nav=_nav(request), facts=facts,
        words=messages.select_page_texts(language, ("base", "fields", own, *also)), path=request.url.path,
        data=context.pop("data", {}), messages=_messages(request, language) if spoken else None, **context,
    )  # fmt: skip
    headers = {"Content-Security-Policy": PAGE_POLICY, "Content-Language": language, "Vary": "Cookie, Accept-Language"}
    response = Response(text, status, headers, "text/html; charset=utf-8")
    if holder is None and "authorization" not in request.headers:
        csrf.remember(request, response, secret)
    return response


def _messages(request: Request, language: str) -> dict[str, Any] | None:
    """The messages, and the titles of fields whose types give them one; nothing where English will do."""
    if language == messages.DEFAULT:
        return None
    environment: ServedEnvironment = request.state.environment
    titles = {name: title for served in environment.served.values() for name, title in served.titles().items()}
    return {"messages": messages.domain(language, "messages"), "fields": titles}


def error_page(request: Request, problem: Problem) -> Response:
    """What went wrong, for people."""
    known = f"base.error_{problem.code}" in messages.domain(messages.DEFAULT, "pages")
    key = f"base.error_{problem.code}" if known else "base.error_other"
    response = page(
        request, "error.html", status=problem.status, problem=problem, sentence=key, known=known,
        request_id=request.state.request_id,
    )  # fmt: skip
    response.headers.update(problem.headers)
    return response


def to_sign_in(request: Request) -> Response:
    """The way of strangers, and back again."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    onward = "" if wanted == "/" else f"?next={quote(wanted, safe='/')}"
    return RedirectResponse(f"/sign-in{onward}", 303)


def local(path: str | None) -> str:
    """An address of ours to go on to; anything that may lead elsewhere is the start page."""
    good = path is not None and path.startswith("/") and path.isprintable() and "\\" not in path
    return path if path and good and not path.startswith("//") else "/"


def language_of(request: Request) -> str:
    """The person's own setting, else what the browser was told here, else what it asks for."""
    holder: Holder | None = getattr(request.state, "holder", None)
    if holder is not None and holder.language in messages.LANGUAGES:
        return holder.language
    told = request.cookies.get(cookies.LANGUAGE) if "authorization" not in request.headers else None
    return told if told in messages.LANGUAGES else negotiate_language(request.headers.get("accept-language", ""))


def negotiate_language(header: str) -> str:
    """The language of an Accept-Language header that we speak, the most wanted first."""
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate(header.split(",")[:20]):
        tag, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            continue
        language = tag.strip().lower().partition("-")[0]
        if language in messages.LANGUAGES and quality > 0:
            wanted.append((-quality, place, language))
    return min(wanted)[2] if wanted else messages.DEFAULT


def theme_of(request: Request) -> str:
    """Light or dark where the browser was told so; nothing: as its system has it."""
    told = request.cookies.get(cookies.THEME, "")
    return told if told in THEMES and "authorization" not in request.headers else ""


def home(request: Request) -> str:
    """Where work begins: each role has another place."""
    role: Role = request.state.holder.role
    places: list[NavItem] = request.app.state.places
    seen = [one for one in places if _may_see(request, one)]
    return next((one for one in seen if role in one.home_of), seen[0]).path


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
    """Whether a page belongs to a place of the header: its address begins with it, or its kind is shown there."""
    return any(path == one or path.startswith(f"{one}/") for one in (place.path, *place.below))


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


def _with_templates() -> list[str]:
    return [one for one in static.packages() if (files(one) / "templates").is_dir()]


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(one, "templates") for one in _with_templates()])
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        auto_reload=False,
    )  # fmt: skip
