"""Code lists that e-invoices must use: currencies, countries, kinds of document, profiles."""

from __future__ import annotations

import re


def parse_codes(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


#: ISO 4217
CURRENCIES = parse_codes(
    """AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF
    CHE CHF CHW CLF CLP CNY COP COU CRC CUC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF
    GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD
    LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR
    PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY
    TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF
    XPT XSU XTS XUA XXX YER ZAR ZMW ZWG ZWL"""
)

#: ISO 3166-1, with the two that EN 16931 adds (XI, Northern Ireland; 1A, Kosovo)
COUNTRIES = parse_codes(
    """1A AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA
    GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE
    KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU
    MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA
    SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM
    US UY UZ VA VC VE VG VI VN VU WF WS XI YE YT ZA ZM ZW"""
)

#: UNTDID 1001, the part that is an invoice or a credit note
KINDS = parse_codes(
    """71 80 81 82 83 84 102 130 202 203 204 211 218 219 261 262 295 296 308 325 326 331 380 381 382 383 384 385 386 387
    388 389 390 393 394 395 396 420 456 457 458 471 472 473 500 501 502 503 527 532 553 575 623 633 751 780 817 870 875
    876 877 935"""
)
CREDITS = frozenset({"261", "381", "396", "502", "503"})
PREPAYMENTS = frozenset({"386", "500", "503"})

#: Recommendations 20 and 21 have some 2,000 codes: what is checked is that it can be one of them.
UNIT = re.compile(r"[A-Z0-9]{2,3}")

#: UNTDID 4461
MEANS = frozenset({*map(str, range(1, 71)), *map(str, range(74, 79)), *map(str, range(91, 98)), "ZZZ"})

#: By rank: what a profile demands is what those below it demand, and more.
PROFILES = ("MINIMUM", "BASIC WL", "BASIC", "EN 16931", "EXTENDED")
#: The end of a guideline's name, and its profile.
GUIDELINES = (
    (re.compile(r"urn:(factur-x\.eu:1p0|zugferd\.de:2p0):minimum"), "MINIMUM"),
    (re.compile(r"urn:(factur-x\.eu:1p0|zugferd\.de:2p0):basicwl"), "BASIC WL"),
    (re.compile(r"urn:cen\.eu:en16931:2017#compliant#urn:(factur-x\.eu:1p0|zugferd\.de:2p0):basic"), "BASIC"),
    (re.compile(r"urn:cen\.eu:en16931:2017"), "EN 16931"),
    (re.compile(r"urn:cen\.eu:en16931:2017#(compliant|conformant)#.*(xrechnung|xeinkauf\.de).*"), "XRECHNUNG"),
    (re.compile(r"urn:cen\.eu:en16931:2017#(compliant|conformant)#.*extended.*"), "EXTENDED"),
    (re.compile(r"urn:cen\.eu:en16931:2017#(compliant|conformant)#.+"), "EN 16931"),
    (re.compile(r"urn:cen\.eu:en16931:2017[:#].+"), "EN 16931"),
    (re.compile(r"urn:ferd:(CrossIndustryDocument:)?invoice:(1p0|rc):(basic|comfort|extended)"), ""),
)

#: What an attached invoice must be called, by its standard.
NAMES = frozenset({"factur-x.xml", "ZUGFeRD-invoice.xml", "zugferd-invoice.xml", "xrechnung.xml"})


def profile_of(guideline: str) -> str | None:
    """The profile that a guideline's name means, None for an unknown one."""
    for pattern, profile in GUIDELINES:
        if pattern.fullmatch(guideline):
            return profile or guideline.rpartition(":")[2].upper()
    return None


def rank_of(profile: str | None) -> int:
    """How much a profile demands, as an index of PROFILES."""
    return PROFILES.index(profile) if profile in PROFILES else PROFILES.index("EN 16931")
