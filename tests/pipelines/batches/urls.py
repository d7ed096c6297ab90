"""URLs that must not be requested for a caller: the table of attacks, each with its name."""

from __future__ import annotations

PRIVATE = {
    "loopback": "http://127.0.0.1/x", "private-10": "http://10.0.0.1/x", "private-172": "http://172.16.0.1/x",
    "private-192": "http://192.168.1.1/x", "metadata": "http://169.254.169.254/latest/meta-data",
    "metadata-name": "http://metadata.google.internal/x", "shared": "http://100.64.0.1/x", "zero": "http://0.0.0.0/x",
    "multicast": "http://224.0.0.1/x", "oracle-metadata": "http://192.0.0.192/x", "ipv6-loopback": "http://[::1]/x",
    "ipv6-mapped": "http://[::ffff:127.0.0.1]/x", "ipv6-mapped-hex": "http://[::ffff:7f00:1]/x",
    "ipv6-compatible": "http://[::127.0.0.1]/x", "nat64": "http://[64:ff9b::7f00:1]/x",
    "nat64-local": "http://[64:ff9b:1::7f00:1]/x", "6to4": "http://[2002:7f00:1::]/x",
    "teredo": "http://[2001:0:7f00:1::]/x", "site-local": "http://[fec0::1]/x", "unique-local": "http://[fd00::1]/x",
    "link-local": "http://[fe80::1]/x", "metadata-v6": "http://[fd00:ec2::254]/x", "zone": "http://[fe80::1%25eth0]/x",
    "localhost": "http://localhost/x",
}  # fmt: skip
MALFORMED = {
    "file": "file:///etc/passwd", "ftp": "ftp://93.184.216.34/x", "gopher": "gopher://93.184.216.34/x",
    "data": "data:text/plain,x", "javascript": "javascript:alert(1)", "relative": "/x", "no-scheme": "93.184.216.34/x",
    "no-host": "http:///x", "user": "http://user@93.184.216.34/x", "password": "http://a:b@93.184.216.34/x",
    "user-trick": "http://93.184.216.34@127.0.0.1/x", "backslash": "http://93.184.216.34\\@127.0.0.1/x",
    "backslash-host": "http:\\\\127.0.0.1/x", "tab": "http://93.184.\t216.34/x", "newline": "http://93.184.216.34\n/x",
    "carriage-return": "http://93.184.216.34/\r\nHost: x", "space": "http://93.184.216.34 /x",
    "decimal": "http://2130706433/x", "octal": "http://0177.0.0.1/x", "hex": "http://0x7f000001/x",
    "hex-parts": "http://0x7f.0.0.1/x", "short": "http://127.1/x", "idn-digits": "http://①②⑦.⓪.⓪.①/x",
    "idn-dot": "http://127。0。0。1/x", "port-22": "http://93.184.216.34:22/x", "port-0": "http://93.184.216.34:0/x",
    "port-large": "http://93.184.216.34:65616/x", "port-text": "http://93.184.216.34:80x/x",
}  # fmt: skip
BLOCKED = {**PRIVATE, **MALFORMED}
TOO_LONG = "http://93.184.216.34/" + "x" * (2049 - len("http://93.184.216.34/"))
