"""The guard: strict parsing of URLs, only public addresses, never metadata servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.errors import ConfigurationError
from tabellion.net import guard
from tabellion.net.guard import Blocked, HostUnreachable, ResolvedUrl, Rules, is_loopback, parse, vet_url


def answering(*addresses: str) -> Rules:
    """Return rules under which every name resolves to these addresses."""

    async def resolve(_host: str, _port: int) -> list[str]:
        return list(addresses)

    return Rules(resolver=resolve)


def vet(url: str, rules: Rules | None = None) -> ResolvedUrl:
    """Return the vetted target of a URL."""
    return asyncio.run(vet_url(url, rules or answering("93.184.216.34")))


@pytest.mark.parametrize(
    ("url", "host", "port", "rest"),
    [
        ("http://example.com", "example.com", 80, "/"),
        ("HTTPS://Example.COM./a/b?c=d#e", "example.com", 443, "/a/b?c=d"),
        ("https://example.com:8443?x", "example.com", 8443, "/?x"),
        ("http://xn--bcher-kva.example/%C3%A4", "xn--bcher-kva.example", 80, "/%C3%A4"),
        ("http://8.8.8.8:8080/x", "8.8.8.8", 8080, "/x"),
        ("https://[2606:2800:0220::1]/", "2606:2800:220::1", 443, "/"),
    ],
)
def test_an_unambiguous_url_is_parsed(url: str, host: str, port: int, rest: str) -> None:
    """Scheme, host, port and the rest, normalized."""
    target = vet(url)
    assert (target.host, target.port, target.rest) == (host, port, rest)
    assert parse(target.url) == parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com/x", "http:example.com", "http:///x", "http://", "http://:80/", "http://.",
        "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "javascript:alert(1)", "data:,x",
        "http://user@example.com/", "http://user:secret@example.com/", "http://example.com@127.0.0.1/",
        "http://example.com\\@127.0.0.1/", "http://example.com\\.evil/", "http://exam\tple.com/", "http://a b/",
        "http://example.com/\n", "http://example.com\r\nHost: x/", "http://example.com\x00/", "http://bücher.example/",
        "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/",
        "http://0177.0.0.1/", "http://127.1/", "http://127.0.0.1.2/", "http://127.0.0.256/", "http://1.2.3.08/",
        "http://example.com:0/", "http://example.com:70000/", "http://example.com:/", "http://example.com:8o/",
        "http://example.com:080/", "http://[::1/", "http://[::1]x/", "http://[fe80::1%25eth0]/", "http://[1.2.3.4]/",
        "http://exa%6dple.com/", "http://-a.example/", "http://a..b/", f"http://{'a' * 64}.example/",
        "http://metadata.google.internal/computeMetadata/v1/", "http://METADATA.google.internal./",
        "http://example.com/" + "x" * 2040,
    ],
)  # fmt: skip
def test_an_ambiguous_url_is_blocked(url: str) -> None:
    """Schemes, users, backslashes, control characters, numbers in disguise, other alphabets, ports, length."""
    with pytest.raises(Blocked, match="cannot be fetched"):
        parse(url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.1.1", "169.254.169.254",
        "100.64.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "168.63.129.16", "100.100.100.200", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::1", "fec0::1", "fe80::1", "fc00::1",
        "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1", "4000::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_blocked(address: str) -> None:
    """Written literally or resolved from a name, alone or beside a public one."""
    literal = f"[{address}]" if ":" in address else address
    with pytest.raises(Blocked):
        vet(f"http://{literal}/")
    with pytest.raises(Blocked):
        vet("http://example.com/", answering("93.184.216.34", address))


def test_ports_are_few() -> None:
    """Ports of mail, shells and databases are blocked."""
    for port in (22, 25, 3306, 5432, 6379, 65535):
        with pytest.raises(Blocked, match="port"):
            vet(f"http://example.com:{port}/")


def test_a_private_network_can_be_allowed() -> None:
    """Its addresses pass on every port; its neighbours and the metadata servers do not."""
    rules = Rules.of(["127.0.0.0/8", "169.254.0.0/16", "fd00::/8"])
    assert vet("http://127.0.0.1:5000/", rules).port == 5000
    assert vet("http://[fd00::7]:5000/", rules).addresses == (ip_address("fd00::7"),)
    for url in ("http://10.0.0.1/", "http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://[::1]/"):
        with pytest.raises(Blocked):
            vet(url, rules)


@pytest.mark.parametrize("network", ["10.0.0.0", "10.0.0.1/8", "intranet", "10.0.0.0/40"])
def test_an_invalid_network_is_rejected(network: str) -> None:
    """A single address is a valid network; anything else is a configuration error."""
    if network == "10.0.0.0":
        assert Rules.of([network]).allows(ip_address("10.0.0.0"))
        return
    with pytest.raises(ConfigurationError, match="is not a network"):
        Rules.of([network])


def failing(error: BaseException) -> Rules:
    """Rules whose resolver raises this error."""

    async def fail(_host: str, _port: int) -> list[str]:
        raise error

    return Rules(resolver=fail)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (failing(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")), "DNS does not answer"),
        (failing(TimeoutError()), "DNS does not answer"),
        (failing(OSError("no route")), "DNS does not answer"),
        (failing(socket.gaierror(socket.EAI_NONAME, "Name or service not known")), "there is no host with this name"),
        (answering(), "there is no host with this name"),
    ],
)
def test_a_name_that_does_not_resolve_is_unreachable_and_not_blocked(rules: Rules, why: str) -> None:
    """DNS may fail for a moment, also when it says that a name does not exist: the error is one to try again after."""
    with pytest.raises(HostUnreachable, match=f"nowhere.example cannot be reached: .*{why}") as caught:
        vet("http://nowhere.example/", rules)
    assert not isinstance(caught.value, Blocked)


def test_a_resolver_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few seconds the host counts as unreachable."""

    async def hang(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(guard, "RESOLVE_SECONDS", 0.01)
    with pytest.raises(HostUnreachable):
        vet("http://nowhere.example/", Rules(resolver=hang))


def test_a_name_with_very_many_addresses_is_blocked() -> None:
    """Nobody needs more than 32."""
    with pytest.raises(Blocked, match="more than 32 addresses"):
        vet("http://nowhere.example/", answering(*[f"8.8.8.{n}" for n in range(40)]))


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_passes_that_is_not_global(number: int) -> None:
    """What passes is global to Python too, and never multicast."""
    address = IPv4Address(number)
    with contextlib.suppress(Blocked):
        Rules().check(address)
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://127.0.0.1:8077/x", True),
        ("http://name.example:8077/", True),
        ("http://127.0.0.1/", False),
        ("http://127.0.0.1:8080/", False),
        ("http://127.0.0.1:8078/", False),
        ("http://name.example:443/", False),
        ("http://127.0.0.2:8077/", False),
        ("http://[::1]:8077/", False),
        ("http://8.8.8.8:8077/", False),
        ("http://169.254.169.254:8077/", False),
    ],
)
def test_a_service_opens_one_port_of_one_address(url: str, is_allowed: bool) -> None:
    """Neither another port of the address nor another address with this port is allowed, even a public one."""
    services = frozenset({(ip_address("127.0.0.1"), 8077), (ip_address("169.254.169.254"), 8077)})
    rules = replace(answering("127.0.0.1"), services=services)
    if is_allowed:
        assert vet(url, rules).addresses == (ip_address("127.0.0.1"),)
    else:
        with pytest.raises(Blocked):
            vet(url, rules)


@given(st.integers(0, 2**128 - 1) | st.integers(0, 2**48).map(lambda tail: (0x2000 << 112) | tail))
def test_no_ipv6_address_that_embeds_another_passes(number: int) -> None:
    """What passes is within 2000::/3 and does not embed an IPv4 address in any known way."""
    address = IPv6Address(number)
    with contextlib.suppress(Blocked):
        Rules().check(address)
        assert number >> 125 == 1
        assert address.sixtofour is None
        assert address.teredo is None
        assert address.ipv4_mapped is None


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_a_number_is_not_a_host(number: int, form: str) -> None:
    """Decimal, hexadecimal and octal forms of an address are blocked."""
    with pytest.raises(Blocked):
        parse(f"http://{form.format(number)}/")


URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP", "ftp", "http:", ""]),
    st.text("aA1.-_@:[]\\%0x7f①/?# \t", max_size=20),
    st.sampled_from(["", "/", "/x", "?x", "#x", "\\x"]),
    st.text("aA1.-_@:[]\\%/?#", max_size=10),
)


@given(URLS)
def test_others_parse_an_allowed_url_the_same_way(url: str) -> None:
    """The standard library and the HTTP client parse the same host and port as the guard."""
    try:
        target = parse(url)
    except Blocked:
        return
    split, client = urlsplit(target.url), httpx2.URL(target.url)
    assert split.hostname == client.host == target.host
    assert {split.port, client.port} <= {target.port, None}


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://kubo:5001/", True),
        ("http://KUBO:5001/", True),
        ("http://kubo/", False),
        ("http://kubo:5002/", False),
        ("http://other:5001/", False),
        ("http://127.0.0.1:5001/", False),
    ],
)
def test_a_host_may_be_allowed_by_its_name(url: str, is_allowed: bool) -> None:
    """On one port, whatever its addresses are; other names of these addresses are not allowed."""
    rules = replace(answering("127.0.0.1"), hosts=frozenset({("kubo", 5001)}))
    if is_allowed:
        assert vet(url, rules).addresses == (ip_address("127.0.0.1"),)
    else:
        with pytest.raises(Blocked):
            vet(url, rules)
    with pytest.raises(Blocked):
        vet("http://kubo:5001/", replace(answering("169.254.169.254"), hosts=frozenset({("kubo", 5001)})))


@pytest.mark.parametrize(
    ("host", "yes"),
    [
        ("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True), ("0.0.0.0", False), ("::", False),
        ("192.168.1.2", False), ("example.com", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_addresses(host: str, yes: bool) -> None:
    """Names that are not known to be loopback are not."""
    assert is_loopback(host) == yes
