"""Type files: found by name, read as a whole, and every error reported with its line."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from tabellion.errors import ConfigurationError
from tabellion.reading.types import typefile
from tabellion.reading.types.typefile import available, compile_type, load
from tabellion.reading.types.yamlnode import Mistake, TypeFileError

SMALL = """\
name: bill
version: "1"
fields:
  total: {type: money, required: true}
  net: money
  paid_on: date
  rows:
    type: list
    items: {what: text, amount: money}
validation:
  - rule: total >= net
"""


def mistakes(text: str) -> list[Mistake]:
    with pytest.raises(TypeFileError) as caught:
        compile_type(text)
    return list(caught.value.mistakes)


def only(text: str) -> Mistake:
    [mistake] = mistakes(text)
    return mistake


def test_a_small_type_has_its_defaults() -> None:
    """Missing settings are filled in."""
    compiled = compile_type(SMALL)
    assert (compiled.name, compiled.version, compiled.title) == ("bill", "1", "Bill")
    assert [one.name for one in compiled] == ["total", "net", "paid_on", "rows"]
    assert compiled.field("total").required
    assert compiled.field("net").kind == "money"
    assert compiled.field("paid_on").title == "Paid on"
    assert list(compiled.field("rows").columns) == ["what", "amount"]
    assert compiled.idempotency.policy == "link"
    assert compiled.processing.review == "doubtful"
    assert compiled.field("net").threshold == 0.8
    [rule] = compiled.rules
    assert (rule.name, rule.severity, rule.fields) == ("total >= net", "error", ("total", "net"))


def test_every_section_is_read() -> None:
    """Labels by language, ranges, thresholds, outputs, processing, locale."""
    compiled = compile_type("""\
name: bill
version: "2.1"
title: A bill
description: What is owed.
recognise: [bill, owed]
locale: {dates: dmy, languages: [en, fr], currency: CAD}
fields:
  total:
    type: money
    title: Grand total
    description: All of it.
    range: {min: 0, max: 1000000.50}
    labels: {en: [total, amount due], fr: total ttc}
    not_labels: [subtotal]
    threshold: 0.9
    severity: warning
  day: {type: date, range: {min: 2000-01-31}}
  kind: {type: choice, enum: [credit, debit]}
  code: {type: id, pattern: "[A-Z]{2}-[0-9]+"}
  rows: {type: list, range: {min: 1, max: 20}, items: {fields: {what: text}}}
validation:
  - {name: positive, rule: total > tolerance, tolerance: 0.02, severity: warning, message: Not positive.}
idempotency: {policy: reject, hash: sha256, cache_ttl: 3600, preserve_locked: false}
output: {json: "out/{type}/{id}.json", parquet: null, compression: snappy, atomic: true}
processing:
  model: gemini
  retries: 5
  retry_base: 2.5
  concurrency: 4
  circuit_breaker: {failure_threshold: 3, recovery_timeout: 30}
  review: always
  sampling: 2.5
  threshold: 0.7
""")
    total = compiled.field("total")
    assert (total.title, total.description, total.least, total.most) == (
        "Grand total",
        "All of it.",
        Decimal(0),
        Decimal("1000000.50"),
    )
    assert total.labels == {"en": ("total", "amount due"), "fr": ("total ttc",)}
    assert total.not_labels == {"any": ("subtotal",)}
    assert (total.threshold, total.severity) == (0.9, "warning")
    assert compiled.field("day").least == date(2000, 1, 31)
    assert compiled.field("kind").options == ("credit", "debit")
    assert compiled.field("kind").threshold == 0.7
    assert (compiled.field("rows").least, compiled.field("rows").most) == (1, 20)
    assert compiled.recognise == {"any": ("bill", "owed")}
    assert (compiled.locale.dates, compiled.locale.languages, compiled.locale.currency) == ("dmy", ("en", "fr"), "CAD")
    assert (compiled.idempotency.policy, compiled.idempotency.cache_ttl, compiled.idempotency.preserve_locked) == (
        "reject",
        3600,
        False,
    )
    assert (compiled.output.json, compiled.output.parquet, compiled.output.compression) == (
        "out/{type}/{id}.json",
        None,
        "snappy",
    )
    processing = compiled.processing
    assert (processing.model, processing.retries, processing.retry_base, processing.concurrency) == (
        "gemini",
        5,
        2.5,
        4,
    )
    assert (processing.failure_threshold, processing.recovery_timeout, processing.sampling) == (3, 30, 2.5)
    assert compiled.rules[0].tolerance == Decimal("0.02")


@pytest.mark.parametrize("name", ["invoice", "receipt", "deed"])
def test_the_shipped_types_are_valid_and_picklable(name: str) -> None:
    """Each loads without an error, has labels for what it requires, and can be sent to another process."""
    loaded = load(name, ())
    assert loaded.name == name
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    for one in loaded:
        assert one.description
        if one.required:
            assert one.labels, one.name
    assert set(loaded.recognise) <= {"en", "fr", "de"}


def test_no_label_of_a_shipped_field_is_also_excluded() -> None:
    """A phrase cannot be both a label of a field and one of its exceptions."""
    for name in ("invoice", "receipt", "deed"):
        for one in load(name, ()):
            for language, phrases in one.labels.items():
                both = set(phrases) & set(one.not_labels.get(language, ()))
                assert not both, f"{name}.{one.name}: {both}"


def test_names_of_the_shipped_fields() -> None:
    """Clients depend on these names."""
    names = {name: [one.name for one in load(name, ())] for name in ("invoice", "receipt", "deed")}
    for wanted in ("vendor", "vendor_address", "invoice_number", "invoice_date", "due_date", "currency", "subtotal",
                   "tax", "total", "line_items", "taxes", "iban"):  # fmt: skip
        assert wanted in names["invoice"]
    for wanted in ("vendor", "vendor_address", "invoice_date", "total", "payment"):
        assert wanted in names["receipt"]
    for wanted in ("registration_number", "registration_date", "parties", "lots", "cadastre"):
        assert wanted in names["deed"]


def test_custom_types_come_first_and_paths_are_files(tmp_path: Path) -> None:
    """A custom type of the same name wins over the shipped one."""
    (tmp_path / "invoice.yaml").write_text(SMALL.replace("bill", "invoice"))
    (tmp_path / "bill.yml").write_text(SMALL)
    (tmp_path / "notes.txt").write_text("no type")
    assert "net" in load("invoice", [tmp_path])
    assert "net" in load(tmp_path / "bill.yml")
    assert "net" in load(f"{tmp_path}/bill.yml")
    assert set(available([tmp_path])) == {"bill", "invoice", "receipt", "deed"}
    assert "net" not in load("invoice", [tmp_path / "nowhere"])
    with pytest.raises(ConfigurationError, match=r"unknown document type 'invioce'; known: deed, invoice, receipt"):
        load("invioce", ())
    with pytest.raises(ConfigurationError, match="No such file"):
        load(tmp_path / "gone.yaml")
    (tmp_path / "other.yaml").write_text(SMALL)
    with pytest.raises(TypeFileError, match=r"named 'other' and the type 'bill'"):
        load("other", [tmp_path])


def test_the_digest_depends_on_content_not_layout() -> None:
    """Comments and layout change nothing; a value, a label or the order of fields does."""
    compiled = compile_type(SMALL)
    assert compile_type("# a comment\n" + SMALL.replace("net: money", "net:   {type: money}")).digest != compiled.digest
    assert compile_type("# a comment\n\n" + SMALL.replace('"1"', "'1'")).digest == compiled.digest
    assert compile_type(SMALL.replace("required: true", "required: false")).digest != compiled.digest
    guided = compile_type(SMALL + "instructions: Look at the stamp.\n")
    assert (guided.instructions, guided.digest) == ("Look at the stamp.", compiled.digest)
    assert compiled.key.startswith("bill/1/")


def test_every_error_is_reported_at_once_in_order() -> None:
    """Ten errors are ten lines with places and fixes, not one at a time."""
    found = mistakes("""\
nmae: bill
version: 1
fields:
  Total: {type: money}
  net: {type: amount, requird: true}
  paid: {type: bool, required: yes}
  kind: {type: choice}
  rows: {type: list}
validation:
  - rule: nett > 0
  - {rule: paid > 1, severity: fatal}
output: {json: ../x.json}
""")
    assert [(one.line, one.column) for one in found] == [
        (1, 1), (1, 1), (4, 3), (5, 15), (5, 23), (6, 32), (7, 9), (8, 9), (10, 11), (11, 19), (11, 32), (12, 16),
        (12, 16),
    ]  # fmt: skip
    text = "\n".join(map(str, found))
    for wanted in ("did you mean 'name'?", "name is missing", "write total", "write money", "did you mean 'required'?",
                   "write required: true", "has no options", "has no items", "did you mean 'net'?",
                   "cannot be compared", "one of error, warning", "without .. and", "{id}"):  # fmt: skip
        assert wanted in text, wanted
    assert str(TypeFileError("bill.yaml", found)).startswith("bill.yaml has 13 errors:\nbill.yaml:1:1: ")


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("name: a\n\tversion: 1\n", 2, 1, "a tab"),
        ("name: a\nname: b\n", 2, 1, "'name' is repeated; first on line 1"),
        ("name: &x a\n", 1, 7, "an anchor"),
        ("name: *x\n", 1, 7, "an alias"),
        ("name: !!python/object/apply:os.system [ls]\n", 1, 7, "the tag"),
        ("name: !secret a\n", 1, 7, "the tag"),
        ("a: {<<: {b: c}}\n", 1, 5, "merge keys"),
        ("[a]: b\n", 1, 1, "a key must be a plain text"),
        ("name: a\n---\nname: b\n", 2, 1, "a second document"),
        ("name: [a\n", 2, 1, "not YAML"),
        ("title: a: b\n", 1, 9, "a second `: `"),
        ("title: @home\n", 1, 8, "not YAML"),
        ("- a\n", 1, 1, "must be a mapping"),
        ("name: " + "[" * 20 + "]" * 20, 1, 18, "nested more than 12 levels deep"),
        ("name: a\x01\n", 1, 1, "does not allow"),
    ],
)
def test_unsupported_yaml_features_are_rejected_with_their_place(text: str, line: int, column: int, what: str) -> None:
    """Tabs, duplicate keys, anchors, tags, merges and second documents."""
    found = mistakes(text)[0]
    assert what in found.what
    assert (found.line, found.column) == (line, column)


def test_an_anchor_bomb_is_harmless() -> None:
    """Nine levels of nine aliases are rejected as they are written, never expanded."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert len(mistakes("\n".join(lines))) == 10 + 9 * 9


def test_binary_and_too_large_files() -> None:
    """Both are one error, not a traceback."""
    with pytest.raises(TypeFileError, match="2:1: not UTF-8"):
        compile_type(b"name: a\ntitle: \xff\xfe\n")
    with pytest.raises(TypeFileError, match="more than 256,000 bytes"):
        compile_type(b"#" * 256_001)
    assert compile_type(b"\xef\xbb\xbf" + SMALL.encode()).name == "bill"
    assert any("name is missing" in one.what for one in mistakes(""))


@pytest.mark.parametrize("word", ["no", "NO", "on", "Off", "yes", "true", "null", "~", ""])
def test_unquoted_yaml_keywords_must_be_quoted(word: str) -> None:
    """`labels: [no]` is [false] to most YAML parsers; in quotes it is the text."""
    text = SMALL.replace("net: money", f"net: {{type: money, title: {word}}}")
    found = only(text)
    assert found.line == 5
    assert compile_type(text.replace(f"title: {word}", f'title: "{word or "x"}"')).field("net").title == (word or "x")


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("{type: monney}", "write money"),
        ("{type: string}", "write text"),
        ("{title: x}", "has no type"),
        ("[money]", "must be a mapping"),
        ("{type: money, threshold: 2}", "at least 0 and at most 1"),
        ("{type: money, threshold: high}", "must be a number"),
        ("{type: money, range: {min: '1,5'}}", "with a point"),
        ("{type: money, range: {min: 5, max: 1}}", "the range is empty"),
        ("{type: money, range: {mni: 5}}", "did you mean 'min'"),
        ("{type: date, range: {min: tomorrow}}", "must be written as 2000-01-31"),
        ("{type: text, range: {min: 1}}", "has no range"),
        ("{type: money, pattern: x}", "has no pattern"),
        ("{type: id, pattern: '('}", "not a valid RE2 regular expression"),
        ("{type: id, pattern: '(?=a)'}", "no look-around"),
        ("{type: money, enum: [a]}", "has no enum"),
        ("{type: choice, enum: [a, a]}", "twice"),
        ("{type: choice, enum: {a: b}}", "a list of texts"),
        ("{type: text, items: {a: text}}", "only a list has items"),
        ("{type: list, items: {a: {type: list, items: {b: text}}}}", "a list within a list"),
        ("{type: list, items: {quote: text}}", "cannot be a field name"),
        ("{type: text, labels: {english: [a]}}", "is not a language"),
        ("{type: text, labels: {en: [a, '']}}", "an empty text"),
        ("{type: text, labels: {en: {a: b}}}", "a list of texts"),
        ("{type: text, severity: note}", "one of error, warning"),
    ],
)
def test_errors_of_fields(field: str, what: str) -> None:
    """Each is explained on its line."""
    found = mistakes(SMALL.replace("paid_on: date", f"paid_on: {field}"))
    assert any(what in str(one) for one in found), found
    assert {one.line for one in found} == {6}


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ("output: {json: '/etc/x/{id}.json'}", "below the data folder"),
        ("output: {json: 'a/../{id}.json'}", "below the data folder"),
        ("output: {json: 'C:\\{id}.json'}", "below the data folder"),
        ("output: {json: 'a/x.json'}", "the same file for every document"),
        ("output: {json: 'a/{id}.parquet'}", "must end in .json"),
        ("output: {json: 'a/{idd}.json'}", "unknown placeholder {idd}"),
        ("output: {json: 'a/{id.__class__}.json'}", "unknown placeholder {id.__class__}"),
        ("output: {json: 'a/{id!r:>99}.json'}", "unknown placeholder {id}"),
        ("output: {json: 'a/{id.json'}", "as in json/"),
        ("output: {atomic: false}", "always written atomically"),
        ("output: {compression: lz5}", "one of zstd"),
        ("idempotency: {policy: ignore}", "one of link, reject, keep"),
        ("idempotency: {hash: md5}", "one of sha256"),
        ("idempotency: {cache_ttl: -1}", "at least 0"),
        ("processing: {retries: 1.5}", "a whole number"),
        ("processing: {concurrency: 0}", "at least 1"),
        ("processing: {circuit_breaker: {treshold: 1}}", "unknown key 'treshold'"),
        ("processing: {review: sometimes}", "one of never, doubtful, always"),
        ("processing: {sampling: 200}", "at most 100"),
        ("locale: {dates: us}", "one of dmy, mdy, ymd"),
        ("locale: {currency: eur}", "three capital letters"),
        ("locale: []", "must be a mapping"),
        ("recognise: {en: [no]}", "without quotes"),
    ],
)
def test_errors_of_sections(section: str, what: str) -> None:
    """Each is explained on its line."""
    found = mistakes(SMALL + section + "\n")
    assert any(what in str(one) for one in found), found
    assert {one.line for one in found} == {12}


@pytest.mark.parametrize(
    ("rule", "column", "what"),
    [
        ("total = net", 17, "write '=='"),
        ("totl > 0", 11, "did you mean 'total'?"),
        ("total > paid_on", 19, "cannot be compared"),
        ('"total > nett"', 20, "did you mean 'net'?"),
        ("total - net", 11, "must be true or false"),
        ("rows.amount > 0", 11, "put all(…) around it"),
        ("total > tolerance", 19, "add `tolerance: 0.02`"),
        ("sum(total) > 0", 15, "sum() takes a column"),
    ],
)
def test_errors_of_rules_have_their_position(rule: str, column: int, what: str) -> None:
    """Line and column are those of the character in the file."""
    found = only(SMALL.replace("total >= net", rule))
    assert (found.line, found.column) == (11, column)
    assert what in found.what


def test_rules_as_a_whole() -> None:
    """A list, each with its rule, each with its own name."""
    assert "a list of rules" in only(SMALL.partition("validation:")[0] + "validation: total > 0\n").what
    assert "two rules" in only(SMALL + "  - rule: total >= net\n").what
    assert "the rule itself" in only(SMALL + "  - name: x\n").what
    assert "more than 100 rules" in only(SMALL + "  - rule: net > 0\n" * 100).what
    assert "did you mean 'tolerance'" in only(SMALL + "  - {rule: net > 0, tolerence: 1}\n").fix


def test_an_error_in_a_rule_over_several_lines_quotes_the_words() -> None:
    """Where columns are not known, the words around the error are."""
    found = only(SMALL.replace("total >= net", "total >= net\n      and totl > 0"))
    assert found.line == 11
    assert found.fix == "see: total >= net and ▶totl > 0"


def test_importing_loads_neither_yaml_nor_pydantic() -> None:
    """A cold start pays for neither."""
    import subprocess
    import sys

    code = (
        "import sys; import tabellion.reading.types.typefile, tabellion.reading.types.rules; "
        "print([name for name in ('yaml', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert typefile.SHIPPED.is_dir()


def test_the_breaker_key_of_other_schemas_is_accepted() -> None:
    """recovery_timeout_seconds is recovery_timeout; and a type sets the review deadline."""
    compiled = compile_type("""\
name: a
version: "1"
fields: {x: text}
processing: {circuit_breaker: {failure_threshold: 5, recovery_timeout_seconds: 90}, sla: 3600}
""")
    assert (compiled.processing.recovery_timeout, compiled.processing.sla) == (90.0, 3600.0)
    assert compile_type('name: a\nversion: "1"\nfields: {x: text}\n').processing.sla is None
