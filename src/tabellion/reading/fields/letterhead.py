"""Patterns of letterheads: legal forms, streets, towns, small print; and of lines that are neither name nor address."""

from __future__ import annotations

import re

from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.values import days, fold_in_place

LEGAL = re.compile(
    r"(?<![a-z(/])(?:sdn\.?\s*bhd\.?|sbn\.?\s*bhd\.?|sn\s*bhd|s/b|bhd|g?mbh|ag|kg(?!\.\s?[a-z])|kgaa|ohg|gbr|partg(?:mbb)?|e\.?\s?k|e\.\s?v|"
    r"e\.\s?u|eg|aor|ug|se|sarl|s\.a\.r\.l|sas|s\.a\.s|sasu|sa|s\.a|eurl|snc|scop|selarl|earl|gaec|sprl|inc|ltd|llc|llp|plc|corp|"
    r"lt[eé]e|enr|senc|s\.?r\.?l|b\.v|n\.v|pty|pte|limited|incorporated|co)(?![a-z])\.?"
)
STRONG = re.compile(
    r"(?<![a-z])(?:sdn\.?\s*bhd|bhd|s/b|gmbh|mbh|sarl|sasu?|ltd|llc|plc|ohg|ug|e\.\s?k|pty|limited|eurl|kgaa|ltee)(?![a-z])"
)
TRADE = re.compile(
    r"\b(?:company|compagnie|enterprises?|entreprise|trading|restaurant|restoran|hardware|supermarket|supermarche|mart|bakery|cafe|bistro|"
    r"pharmacy|farmasi|pharmacie|apotheke|boulangerie|garage|hotel|stores?|shop|stationery|holdings?|group|marketing|services?|kitchen|"
    r"coffee|house|quincaillerie|unternehmen|supply|supplies|perniagaan|kedai|boutique|station|motor|florist|vermietung|autovermietung)\b"
)
STREET = re.compile(
    r"\b(?:jalan|jln|jl|ja[il]an|lot|lorong|lrg|taman|tmn|bandar|bdr|kampung|kg\.|persiaran|lebuh|lebuhraya|medan|menara|wisma|"
    r"kawasan|seksyen|section|batu|[ck]omple[kx]s?|tingkat|floor|flr|level|unit|street|st\.|road|rd|avenue|ave|boulevard|blvd|lane|drive|"
    r"suite|building|rue|av\.|chemin|route|place|impasse|allee|quai|cours|zac|autoroute|no\.?\s?\d+|gnd|lingkaran|dataran|"
    r"platz|ring|gasse|ufer|damm|postfach|mall|centre|center|industrial|shopping|square|highway|plaza)\b"
    r"|str(?:asse|a.e|\.)\s*\d|\w(?:strasse|stra.e|str\.|weg|allee|platz|gasse)\s*\d"
)
POSTAL = re.compile(
    r"(?:^|[\s,])(?:[a-z]{1,2}[- ])?\d{5}(?=\s*[,.]?\s*[^\W\d_]{2})|\b[a-z]{1,2}-\d{4}\b|\b[a-z]\d[a-z]\s?\d[a-z]\d\b|"
    r"\b[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}\b|\b[a-z]{2} \d{5}(?:-\d{4})?\b|^\W*\d{4}\s+[^\W\d_]{3}|"
    r"\b(?:vic|nsw|qld|sa|wa|tas|act|nt) \d{4}\b"
)
REGION = re.compile(
    r"\b(?:selangor|johor|penang|pahang|perak|kedah|kelantan|melaka|sabah|sarawak|terengganu|kuala lumpur|kl|"
    r"malaysia|darul\s\w+|"
    r"deutschland|germany|france|quebec|canada|ontario|schweiz|suisse|osterreich|petaling jaya|shah alam|johor bahru)\b"
)
NUMBERED = re.compile(
    r"^\W*(?:[a-z]{1,2}\d?[-.]?)?\d{1,5}[a-z]?(?:-\d+)*\s?[,.]\s*[a-z]|^\W*\d{1,4}\s+(?:rue|bd|av|chemin|route)\b"
)
#: Words of lines that are neither a name nor an address.
NOISE = re.compile(
    r"\b(?:te[l1]|telephone|phone|fax|fon|e-?mail|email|www|http|gst\w*|sst|reg|tax|\w*invoice|receipts?|facture|\w*rechnung\w*|bill|cash|cashier|"
    r"date|datum|siret|siren|tva|vat|ust|iban|bic|page|seite|table|order|customer|client|kunde\w*|copy|welcome|thank|h/p|hp|gln|co\W{1,2}\s?no|"
    r"company (?:reg )?no|roc|brn|id|stylesheet|version|duplicate|reprint|member|doc|counter|contact|hours|slip|hrs|"
    r"original|approval|"
    r"kaufer|verkaufer|anschrift|nummer|number|globale|steuernummer|amount|item|guest|check|qty|website|outlet|"
    r"hotline|careline|logo|trade name|"
    r"open daily|business|betreff|beispiel-rechnungen|staff|vendeur)\b|^\W*(?:total|name|nom)\b\W*$|^\W*total\b|@|"
    r"\.com\b|\.de\b|\.fr\b|\w:\d{2}\b"
)
#: Words that open the recipient's address in a letter.
ADDRESSEE = re.compile(
    r"\W*(?:firma|herrn?|frau|familie|an (?:die|den|das)|z\. ?hd\.?|monsieur|madame|mme|m\.|mr\.?|mrs\.?|ms\.?|attn|"
    r"attention)\b[ .:]"
)
LONGEST = 160  # letters: names are shorter, and no pattern is tried on more
REGISTRATION = re.compile(
    r"[\s([{<]+(?:(?:co|company|reg|roc|no)[\W]*)*[a-z]{0,3}\d{5,12}\s?-?\s?[a-z0-9]?\s*[)\]}>]?\s*$", re.IGNORECASE
)
ONLY_REGISTRATION = re.compile(r"^\W*(?:[a-z]{1,3}\W{0,2})?(?:\d{6,12}|\d{4,12}\s?-)\s?[a-z]{0,2}\W*$")
BULLETS = re.compile(r"\s*[●•·|▪–—*]\s+|\s+-\s+")
#: Words of the sender's small print.
IMPRINT = re.compile(
    r"\b(?:ust-?\s?id\w*|uid|atu\d|iban|bic|hr[ab]|handelsregister|amtsgericht|geschaftsfuhrer|gf|inhaber\w*|steuer-?n\w*|st\.?-nr|siret|siren|"
    r"rcs|r\.c\.s|capital|ape|naf|tva|vat (?:no|reg|id)|company (?:no|reg)|registered|neq|tps|tvq|gst|abn|che-\d|"
    r"kontoinhaber|account holder)\b"
)
DOMAIN = re.compile(r"(?:@|www\.|https?://)([a-z0-9-]{3,})\.(?:[a-z]{2,4})")


def is_address(text: str) -> bool:
    """Whether a line looks like a part of an address."""
    parts = BULLETS.split(text)
    return any(map(is_place, parts)) if len(parts) > 1 else is_place(text)


def is_place(text: str) -> bool:
    """Whether a text without bullets looks like a part of an address."""
    plain = fold_in_place(text)
    if phone_or_web(plain) or (NOISE.search(plain) and not POSTAL.search(plain)):
        return False
    return bool(STREET.search(plain) or POSTAL.search(plain) or NUMBERED.search(plain)) or bool(
        REGION.search(plain) and len(plain) < 50
    )


def clean_name(text: str) -> str:
    """A name without registration numbers, logo words and what follows its legal form."""
    text = BULLETS.split(text[:LONGEST])[0]
    text = re.sub(
        r"^\s*(?:logo\s|(?:from|name|nom|verk.ufer|vendor|seller|fournisseur|[eé]metteur)\s*:)\s*(?=\w)",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = re.split(
        r"\s*,?\s+(?:au capital|soci[eé]t[eé] (?:anonyme|coop|par actions)|phG|Inhaber|Inh\.|t/a|trading as|GF)\b", text
    )[0]
    text = re.sub(r"\s*[(\[<]\s*(?:co|company|reg|roc|gst)\b.*$", "", text, flags=re.IGNORECASE)
    plain = fold_in_place(text)
    for form in LEGAL.finditer(plain):
        after = text[form.end() :]
        if re.match(r"\s*,\s*\S|\W*(?:[(\[<](?!m\))|[a-z]{0,2}\d{3,})", after, re.IGNORECASE) and form.start() > 2:
            text = text[: form.end()]
            break
        if form.group().rstrip(".") == "co" and form.start() > 3 and not LEGAL.search(plain, form.end()):
            text = text[: form.end()]
    shorter = REGISTRATION.sub("", text)
    text = shorter if len(shorter) >= 3 and re.search(r"[^\W\d_]{2}", shorter) else text
    text = re.sub(r"(?<=[a-z])I(?=[a-z])", "l", text)  # "WorId"
    return text.strip(" :;,*~_-|=<>'\"")


def is_name(text: str) -> bool:
    """Whether a text may be the name of a person or company."""
    plain = fold_in_place(text)
    if sum(map(str.isalpha, plain)) < 3 or days(text) or phone_or_web(plain):
        return False
    return bool(LEGAL.search(plain)) or not (NOISE.search(plain) or is_address(text))


def name_of(line: Line, customer: set[int]) -> str:
    """The line's text as a name; empty where it cannot be one."""
    name = clean_name(line.text)
    plain = fold_in_place(name)
    letters = sum(letter.isalpha() for letter in plain)
    if letters < 3 or letters < 0.55 * len(plain.replace(" ", "")) or line.number in customer or len(name.split()) > 10:
        return ""
    legal = LEGAL.search(plain)
    if legal_alone(line):
        return ""
    if ADDRESSEE.match(fold_in_place(line.text)) or (re.search(r"\w\s*:\s*\w", name) and not legal):
        return ""
    if (
        days(line.text)
        or phone_or_web(plain)
        or (NOISE.search(plain) and not STRONG.search(plain))
        or (is_address(name) and not legal)
    ):
        return ""
    return name


def same(first: str, second: str) -> bool:
    """Whether two names differ in spaces and case only."""
    return fold_in_place(first).replace(" ", "") == fold_in_place(second).replace(" ", "")


def legal_alone(line: Line) -> bool:
    """Whether a line is nothing but the legal form of the name above it."""
    plain = fold_in_place(line.text)
    match = LEGAL.match(plain.strip(" (")) if plain else None
    return bool(match) and len(re.sub(r"\W*\(?[\d-]+\w?\)?\W*$", "", plain[match.end() :] if match else "")) < 3


def phone_or_web(plain: str) -> bool:
    """Whether a folded text is a phone number, a mail address or a web site."""
    return bool(
        re.search(r"\b(?:tel|fax|phone|telephone|telefon|hp|h/p|fon|hotline)\b|@|www\.|https?:", plain)
    ) or bool(re.fullmatch(r"[\d\s()+/-]{7,}", plain))
