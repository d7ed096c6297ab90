"""The portal's pages as HTML: one layout, forms, tables and links to other pages of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

TITLES = {
    "foncier": "Registre foncier en ligne (exercice)",
    "req": "Registraire des entreprises (exercice)",
    "rdprm": "Registre des droits personnels et réels mobiliers (exercice)",
}
PER_PAGE = 10
STYLE = """body{font:16px/1.5 sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
header{border-bottom:3px solid #1c4a7d}
label{display:block;margin:.5rem 0}table{border-collapse:collapse}td,th{border:1px solid #aaa;padding:.3rem .6rem}
.erreur{background:#fbe3e3;padding:.6rem}#avis{position:fixed;inset:0;background:#000a;padding:15% 25%}
#avis div{background:#fff;padding:2rem}"""
POPUP = """<div id="avis" role="dialog" aria-label="Avis"><div><p>Avis important : nos heures d'ouverture changent.</p>
<button type="button" id="avis-fermer">Fermer</button></div></div>
<script>document.getElementById('avis-fermer').onclick=()=>document.getElementById('avis').remove()</script>"""
DIALOG = "<script>setTimeout(()=>alert('Veuillez enregistrer votre travail.'),50)</script>"


def render_page(site: str, heading: str, body: str, *, popup: bool = False, dialog: bool = False) -> str:
    """A whole page of a site."""
    title = TITLES.get(site, "Portail d'exercice")
    over = (POPUP if popup else "") + (DIALOG if dialog else "")
    return (
        f'<!doctype html><html lang="fr"><head><meta charset="utf-8"><title>{escape(heading)} · {title}</title>'
        f"<style>{STYLE}</style></head><body><header><strong>{title}</strong></header>"
        f"<main><h1>{escape(heading)}</h1>{body}</main>{over}</body></html>"
    )


def error_box(text: str) -> str:
    """What went wrong, as all three sites show it."""
    return f'<p class="erreur" role="alert">{escape(text)}</p>'


def text_input(name: str, label: str, *, kind: str = "text", required: bool = True) -> str:
    """A labelled input."""
    must = " required" if required else ""
    return f'<label>{escape(label)} <input type="{kind}" id="{name}" name="{name}"{must}></label>'


def select_input(name: str, label: str, options: Iterable[str]) -> str:
    """A labelled list of options, the first of which is none."""
    made = "".join(f'<option value="{escape(one)}">{escape(one)}</option>' for one in options)
    return f'<label>{escape(label)} <select id="{name}" name="{name}"><option value=""></option>{made}</select></label>'


def form(action: str, inputs: Iterable[str], button: str, label: str) -> str:
    """A form that asks by GET, so that every result has an address."""
    return f'<form action="{action}">{"".join(inputs)}<button id="{button}">{escape(label)}</button></form>'


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are HTML already."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def pager(address: str, page: int, total: int) -> str:
    """Links to the pages before and after; `address` ends where the page's number goes."""
    pages = max(1, -(-total // PER_PAGE))
    before = f'<a class="precedente" href="{escape(address)}{page - 1}">Page précédente</a> ' if page > 1 else ""
    after = f' <a class="suivante" href="{escape(address)}{page + 1}">Page suivante</a>' if page < pages else ""
    return f'<p class="pages">{before}Page {page} sur {pages}{after}</p>'
