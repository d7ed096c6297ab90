"""Parses untrusted XML: no DTD, limited size and depth, and the declared encoding is verified."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers import expat

from tabellion.messages import Message, quote_value
from tabellion.reading.issue import Issue

LARGEST = 32 * 1024 * 1024  #: bytes
DEEPEST = 64  #: elements inside elements
MOST = 400_000  #: elements

BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
#: The first bytes of UTF-16 without a byte order mark.
BARE = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
DECLARATION = re.compile(r"""\A\s*<\?xml\s[^>]*?encoding\s*=\s*["']([^"']*)["'][^>]*\?>""")
#: Encodings in which any bytes are valid, so that a wrong declaration raises no error.
SINGLE_BYTE = re.compile(r"^(iso8859|latin|cp125|windows)", re.IGNORECASE)


class XmlNode:
    """One element: its local name, namespace, attributes, children and text."""

    __slots__ = ("attributes", "children", "line", "name", "pieces", "space")

    def __init__(self, name: str, space: str, attributes: dict[str, str], line: int) -> None:
        self.name, self.space, self.attributes, self.line = name, space, attributes, line
        self.children: list[XmlNode] = []
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """Its own text, without surrounding white space."""
        return "".join(self.pieces).strip()

    def all(self, path: str) -> list[XmlNode]:
        """The elements at a path of local names; `a|b` is either."""
        found = [self]
        for step in path.split("/"):
            names = step.split("|")
            found = [child for node in found for child in node.children if child.name in names]
        return found

    def first(self, path: str) -> XmlNode | None:
        """The first element at a path with content, or else the first at all."""
        found = self.all(path)
        return next((node for node in found if node.text or node.children), found[0] if found else None)

    def walk(self) -> Iterator[XmlNode]:
        """The element and its descendants, in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


EMPTY_NODE = XmlNode("", "", {}, 0)


@dataclass(frozen=True, slots=True)
class Tree:
    """The part that could be parsed, and the issues found."""

    root: XmlNode | None
    issues: tuple[Issue, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the whole document was parsed."""
        return not any(issue.code in ("xml_damaged", "xml_refused", "xml_empty") for issue in self.issues)


class XmlRefused(Exception):  # noqa: N818 - it is caught here and never seen
    """The document exceeds a limit or has a DTD."""


def parse(data: bytes) -> Tree:
    """The tree of an XML document; for a damaged one the part before the damage, and an issue."""
    if len(data) > LARGEST:
        return Tree(None, (_refusal(Message("xml.too_large", n=LARGEST // 1024 // 1024)),))
    if not data.strip(b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"):
        return Tree(None, (Issue("xml_empty", "error", Message("xml.empty"), rule="XML 1.0"),))
    text, encoding_issue = decode(data)
    issues = [encoding_issue] if encoding_issue else []
    reader = _Reader()
    try:
        # Re-encoded, so that the declaration has no effect.
        reader.expat.Parse(text.encode("utf-8", "surrogatepass"), True)
    except XmlRefused as error:
        issues.append(_refusal(str(error)))
        return Tree(None, tuple(issues))
    except expat.ExpatError as error:
        message = Message("xml.malformed", text=expat.ErrorString(error.code), n=error.lineno)
        issues.append(Issue("xml_damaged", "error", message, rule="XML 1.0"))
        for node in reader.open:
            node.pieces.clear()  # half a number is a wrong number
    return Tree(reader.root, tuple(issues))


def decode(data: bytes) -> tuple[str, Issue | None]:
    """The text, and an issue where the declared encoding does not match the bytes."""
    detected = next((name for mark, name in BOMS if data.startswith(mark)), None)
    has_mark = detected is not None
    detected = detected or next((name for start, name in BARE if data.startswith(start)), None)
    head = data[:400].decode(detected or "latin-1", "replace").lstrip("\ufeff")
    declared = (match[1].strip() if (match := DECLARATION.match(head)) else "") or None
    encoding = _codec(declared) if declared else detected or "utf-8"
    if encoding is None:
        return _best(data, detected), _encoding_issue(Message("xml.unknown_encoding", value=quote_value(declared)))
    if detected and not detected.startswith(encoding):
        code = "xml.byte_order_mark_differs" if has_mark else "xml.bytes_differ"
        return _best(data, detected), _encoding_issue(Message(code, declared=declared, seen=detected.upper()))
    try:
        text = data.decode(detected or encoding)
    except UnicodeDecodeError as error:
        code = "xml.invalid_byte_declared" if declared else "xml.invalid_byte"
        return _best(data, None), _encoding_issue(Message(code, declared=declared or "UTF-8", n=error.start))
    except (LookupError, UnicodeError):  # codecs of Python that are not character sets: base64, zip, punycode
        return _best(data, None), _encoding_issue(Message("xml.unknown_encoding", value=quote_value(declared)))
    if SINGLE_BYTE.match(encoding) and not data.isascii() and _is_utf8(data):
        return data.decode("utf-8"), _encoding_issue(Message("xml.bytes_are_utf8", declared=declared))
    return text.lstrip("\ufeff"), None


def _codec(declared: str) -> str | None:
    try:
        return codecs.lookup(declared).name
    except (LookupError, ValueError):  # ValueError: a zero byte in the name
        return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _best(data: bytes, detected: str | None) -> str:
    """The most likely text of bytes whose declaration is wrong."""
    name = detected or ("utf-8" if _is_utf8(data) else "cp1252")
    return data.decode(name, "replace").lstrip("\ufeff")


def _encoding_issue(message: str) -> Issue:
    return Issue("xml_encoding", "error", Message("xml.wrong_encoding", detail=message), rule="XML 1.0 §4.3.3")


def _refusal(message: str) -> Issue:
    return Issue("xml_refused", "error", Message("xml.refused", detail=message), rule="XML 1.0")


class _Reader:
    """Builds the tree while expat parses."""

    def __init__(self) -> None:
        self.root: XmlNode | None = None
        self.open: list[XmlNode] = []
        self.count = 0
        self.expat = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.add_text
        self.expat.StartDoctypeDeclHandler = self.refuse

    def refuse(self, *_: object) -> None:
        raise XmlRefused(Message("xml.doctype"))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if len(self.open) >= DEEPEST:
            raise XmlRefused(Message("xml.too_deep", n=DEEPEST))
        if self.count > MOST:
            raise XmlRefused(Message("xml.too_many_elements", n=MOST))
        space, _, local = name.rpartition(" ")
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        node = XmlNode(local, space, plain, self.expat.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node
        self.open.append(node)

    def end(self, _: str) -> None:
        self.open.pop()

    def add_text(self, text: str) -> None:
        if self.open:
            self.open[-1].pieces.append(text)
