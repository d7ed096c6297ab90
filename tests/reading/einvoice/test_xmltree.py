"""Untrusted XML is parsed with guards, and its encoding is checked."""

from __future__ import annotations

import codecs

import pytest

from tabellion.reading.einvoice.xmltree import DEEPEST, parse

TEXT = '<?xml version="1.0" encoding="{}"?><a xmlns="urn:x"><b k="v">é &amp; ü</b><b> second </b></a>'


def read(data: bytes) -> tuple[list[str], list[str]]:
    tree = parse(data)
    texts = [node.text for node in tree.root.all("b")] if tree.root else []
    return texts, [issue.code for issue in tree.issues]


@pytest.mark.parametrize(
    "data",
    [
        TEXT.format("UTF-8").encode(),
        codecs.BOM_UTF8 + TEXT.format("utf-8").encode(),
        TEXT.format("ISO-8859-1").encode("latin-1"),
        TEXT.format("windows-1252").encode("cp1252"),
        codecs.BOM_UTF16_LE + TEXT.format("UTF-16").encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.format("UTF-16").encode("utf-16-be"),
        TEXT.format("UTF-16").encode("utf-16-le"),
        '<a xmlns="urn:x"><b>é &amp; ü</b><b>second</b></a>'.encode(),
    ],
)
def test_a_correct_encoding_is_read(data: bytes) -> None:
    """Declared, marked or by default: the characters are right."""
    assert read(data) == (["é & ü", "second"], [])


@pytest.mark.parametrize(
    "data",
    [
        TEXT.format("UTF-8").encode("latin-1"),
        TEXT.format("ISO-8859-1").encode(),
        TEXT.format("US-ASCII").encode(),
        codecs.BOM_UTF8 + TEXT.format("ISO-8859-1").encode(),
        codecs.BOM_UTF16_LE + TEXT.format("UTF-8").encode("utf-16-le"),
        TEXT.format("EBCDIC-404").encode(),
        '<a xmlns="urn:x"><b>é &amp; ü</b><b>second</b></a>'.encode("latin-1"),
    ],
)
def test_a_wrong_encoding_is_an_issue_and_still_read(data: bytes) -> None:
    """Bytes that contradict the declaration are reported, and read as what they are."""
    assert read(data) == (["é & ü", "second"], ["xml_encoding"])


@pytest.mark.parametrize(
    "name", ["base64", "hex", "zip", "bz2", "rot13", "quopri", "uu", "punycode", "idna", "undefined"]
)
def test_a_codec_that_is_not_a_character_set_is_an_issue_and_the_text_is_read(name: str) -> None:
    """Python has codecs that are not encodings of text; a declaration of one makes nothing unreadable."""
    assert read(TEXT.format(name).encode()) == (["é & ü", "second"], ["xml_encoding"])


@pytest.mark.parametrize("name", ["a\0b", "é" * 30])
def test_an_invalid_encoding_name_is_an_issue(name: str) -> None:
    """A name that is not even well-formed XML does not raise."""
    assert read(TEXT.format(name).encode()) == ([], ["xml_encoding", "xml_damaged"])


def test_namespaces_attributes_and_lines_are_kept() -> None:
    """A node knows its local name, namespace, attributes and line."""
    root = parse(b'<p:a xmlns:p="urn:p">\n<p:b p:k="v" l="w"/></p:a>').root
    assert root is not None
    assert (root.name, root.space) == ("a", "urn:p")
    assert (root.children[0].attributes, root.children[0].line) == ({"k": "v", "l": "w"}, 2)


def test_truncated_xml_gives_what_came_before() -> None:
    """A cut is an issue, not an exception; elements closed before it are there, and half a number is not."""
    assert read(b"<a><b>1</b><b>120.") == (["1", ""], ["xml_damaged"])


@pytest.mark.parametrize(
    "data", [b"<a><b></a>", b"<a>&nope;</a>", b"<a>1 & 2</a>", b"not xml", b"<a/><a/>", b"<a>\x01</a>"]
)
def test_malformed_xml_is_an_issue(data: bytes) -> None:
    """Every such error has the same code."""
    assert [issue.code for issue in parse(data).issues] == ["xml_damaged"]


@pytest.mark.parametrize("data", [b"", b"  \n", codecs.BOM_UTF8])
def test_an_empty_file_has_its_own_code(data: bytes) -> None:
    """It is reported as empty."""
    assert read(data) == ([], ["xml_empty"])


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b"<a>" * (DEEPEST + 1) + b"</a>" * (DEEPEST + 1),
    ],
)
def test_attacks_are_rejected(data: bytes) -> None:
    """A DOCTYPE, and with it every entity, and endless nesting: nothing of it is read."""
    tree = parse(data)
    assert tree.root is None
    assert [issue.code for issue in tree.issues] == ["xml_refused"]


def test_too_large_xml_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and elements are limited."""
    monkeypatch.setattr("tabellion.reading.einvoice.xmltree.MOST", 3)
    assert parse(b"<a><b/><b/></a>").root is not None
    assert parse(b"<a><b/><b/><b/></a>").root is None
    monkeypatch.setattr("tabellion.reading.einvoice.xmltree.LARGEST", 4)
    assert parse(b"<a/>").root is not None
    assert parse(b"<ab/>").root is None
