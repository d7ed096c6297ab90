"""Words that say nothing about what a website is about, in English, French and German."""

from __future__ import annotations

_TEXT = """
the and for with your you our are from that this have has was not can all will more about how what who when which their
they its into out new one any but also use get now see them than then there here over per off why may just only some
contact terms privacy policy home page click read make made work works us
les des une dans pour par sur avec est sont nos vos votre notre vous nous aux que qui plus pas tout tous être cette ces
son ses leur leurs mais où donc comme sans sous entre vers chez très bien fait peut conditions accueil mentions
der die das und mit für von den dem ist sind ein eine auf im nicht wir sie ihr
"""
STOP_WORDS = frozenset(_TEXT.split())
