"""The settings of batches: the model, the stores, bounds of retries, and who is called back with which secret."""

from __future__ import annotations

import base64
import functools
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tabellion.errors import ConfigurationError
from tabellion.models.base import Ask, Model
from tabellion.net.guard import STANDARD, Blocked, Rules, parse
from tabellion.pipelines.batches.content import IPFS, ContentStore, open_content
from tabellion.pipelines.batches.staging import Staging
from tabellion.reading.sandbox import Sandbox
from tabellion.storage.lake import Lake

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment

LOCAL = "local"  #: no model: images are read by local OCR
CHUNK_SIZE = 10  #: entities of a chunk
RETRIES_PER_REF, GLOBAL_RETRIES = 3, 5
#: Seconds before each retry of loading or publishing a chunk, and up to half more: a store may be restarted meanwhile.
CHUNK_WAITS = (2.0, 10.0, 30.0, 120.0, 600.0)
MOST_FAILED = 0.5  #: the share of failed refs above which a chunk is an error
SLOTS = 100  #: refs that one worker reads at once
VARIANT = "medium"
REJECT, START = "reject", "start"  #: what becomes of an entity whose tip the content store does not have
IMAGE_BYTES = 20_000_000
MOST_BYTES = 4_000_000_000  #: of a batch that is sent as JSONL
SHORTEST_SECRET, SHORTEST_KEY = 16, 16  #: characters of the callers' secret, bytes of one that signs
WHSEC = "whsec_"
ANY_ORIGIN = "*"  #: in `batches.orchestrators`: whoever has no entry
#: Keys that are settings of the same name.
NUMBERS = (
    "chunk_size", "retries_per_ref", "global_retries", "most_failed", "slots", "image_bytes", "lease", "timeout",
    "model_deadline",
)  # fmt: skip


@dataclass(frozen=True)
class BatchSettings:
    """The settings that queues, handlers and routes use. `make_model` creates a model behind its gate."""

    staging: Staging
    content: ContentStore
    rules: Rules = field(default_factory=Rules)
    model: str = LOCAL
    gate: str | None = None  #: of the model; local OCR has none
    make_model: Callable[[str], Model] | None = field(default=None, repr=False)
    chunk_size: int = CHUNK_SIZE
    retries_per_ref: int = RETRIES_PER_REF
    global_retries: int = GLOBAL_RETRIES
    most_failed: float = MOST_FAILED
    slots: int = SLOTS
    variant: str = VARIANT
    unknown_tip: str = REJECT
    image_bytes: int = IMAGE_BYTES
    most_bytes: int = MOST_BYTES
    lease: float = 60.0
    timeout: float = 600.0
    retry_base: float = 2.0
    chunk_waits: tuple[float, ...] = CHUNK_WAITS
    model_deadline: float = Ask().deadline
    secret: str | None = field(default=None, repr=False)  #: that callers of `/process` send
    networks: tuple[str, ...] = ()  #: whose callers need no secret if none is set, besides this machine
    orchestrators: Mapping[str, str] = field(default_factory=dict, repr=False)  #: secrets by origin
    sandbox: Sandbox | None = None

    @property
    def starts(self) -> bool:
        """Whether the versions of an entity start here if the content store does not have its tip."""
        return self.unknown_tip == START

    def configured_secret(self, callback_url: str) -> str | None:
        """The secret that signs the callbacks to this URL, if one is configured."""
        return self.orchestrators.get(origin_of(callback_url), self.orchestrators.get(ANY_ORIGIN))


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, the port only where it is not the standard one."""
    parts = urlsplit(url)
    port = parts.port
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}" + (f":{port}" if port and port != STANDARD.get(parts.scheme) else "")


def settings_of(config: Config, environment: Environment | None = None, rules: Rules | None = None) -> BatchSettings:
    """The configured settings for an environment (default: the first); an error names the key that is wrong."""
    from tabellion.config import model, model_gates

    section = config.section("batches")
    name, gates = str(section.get("model", LOCAL)), model_gates(config)
    if name not in (LOCAL, *gates):
        raise ConfigurationError(
            f"batches.model: unknown model {name!r}; known: {', '.join((LOCAL, *gates))}. Set its key, or add it to "
            "[models]"
        )
    subfolder = environment.name if environment is not None and environment != config.environments[0] else None
    rules = rules or Rules.of(config.allow)
    data = config.data / "batches"
    staging, content = (_place(section, kind, data, subfolder) for kind in ("staging", "content"))
    chosen: dict[str, Any] = {key: section[key] for key in NUMBERS if key in section}
    return BatchSettings(
        Staging(_open_staging(staging)), open_content(content, _node_rules(content, rules)), rules, name,
        None if name == LOCAL else gates[name], functools.partial(model, config=config), **chosen,
        variant=section.get("variant", VARIANT), unknown_tip=_unknown_tip(section, content), secret=_secret(section),
        networks=_networks(section),
        orchestrators=_orchestrators(section),
    )  # fmt: skip


def check(config: Config) -> None:
    """Raises a ConfigurationError for what cannot work."""
    settings = settings_of(config)
    if not 0 < settings.most_failed <= 1:
        raise ConfigurationError(f"batches.most_failed: {settings.most_failed} is not a share between 0 and 1")


def _open_staging(url: str) -> Lake:
    try:
        return Lake(url)
    except ConfigurationError:
        raise ConfigurationError(f"batches.staging: {url} is neither a folder nor s3://bucket/prefix") from None


def _place(section: Mapping[str, Any], key: str, data: Path, subfolder: str | None) -> str:
    """A configured store; the environments after the first have a subfolder each. An IPFS node has no folders."""
    url = str(section.get(key) or data / key)
    if subfolder is None or url.startswith(IPFS):
        return url
    return f"{url.rstrip('/')}/{subfolder}"


def _node_rules(url: str, rules: Rules) -> Rules:
    """The rules for the configured IPFS node: its own host and port are allowed, whatever its network."""
    if not url.startswith(IPFS):
        return rules
    try:
        target = parse(url.removeprefix("ipfs+"))
    except Blocked as error:
        raise ConfigurationError(f"batches.content: {url}: {error.reason}") from None
    if target.rest.rstrip("/").endswith("/api/v0"):
        raise ConfigurationError(
            f"batches.content: {url}: leave out /api/v0, which is added to the address of the node"
        )
    try:
        address = ipaddress.ip_address(target.host)
    except ValueError:
        return replace(rules, hosts=rules.hosts | {(target.host, target.port)})
    return replace(rules, services=rules.services | {(address, target.port)})


def _unknown_tip(section: Mapping[str, Any], content: str) -> str:
    """An IPFS node should have the tips of others; a store that only tabellion writes to cannot."""
    chosen = str(section.get("unknown_tip", REJECT if content.startswith(IPFS) else START))
    if chosen not in (REJECT, START):
        raise ConfigurationError(f"batches.unknown_tip: {chosen!r} is neither {REJECT!r} nor {START!r}")
    return chosen


def _secret(section: Mapping[str, Any]) -> str | None:
    secret: str | None = section.get("secret")
    if secret is not None and len(secret) < SHORTEST_SECRET:
        raise ConfigurationError(f"batches.secret: use at least {SHORTEST_SECRET} characters")
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise ConfigurationError("batches.secret: use ASCII characters only: callers send it in a header")
    return secret


def _networks(section: Mapping[str, Any]) -> tuple[str, ...]:
    networks = tuple(section.get("networks", ()))
    try:
        Rules.of(networks)
    except ConfigurationError as error:
        raise ConfigurationError(f"batches.networks: {error}") from None
    return networks


def _orchestrators(section: Mapping[str, Any]) -> dict[str, str]:
    """The secrets by origin, each in the format of Standard Webhooks."""
    found: dict[str, str] = {}
    for url, secret in section.get("orchestrators", {}).items():
        origin = url if url == ANY_ORIGIN else _origin(url)
        if origin in found:
            raise ConfigurationError(f"batches.orchestrators: {url!r} is there twice; keep one of the entries")
        if not _can_sign(secret):
            raise ConfigurationError(
                f"batches.orchestrators: the secret of {url} must be whsec_ and at least {SHORTEST_KEY} bytes in "
                "base64; `tabellion batches secret` makes one"
            )
        found[origin] = secret
    return found


def _origin(url: str) -> str:
    try:
        if parse(url).rest == "/":
            return origin_of(url)
    except Blocked:
        pass
    raise ConfigurationError(f'batches.orchestrators: {url!r} is not an origin; write "https://host" = "whsec_…"')


def _can_sign(secret: Any) -> bool:
    """Whether a value is a secret of Standard Webhooks."""
    if not isinstance(secret, str) or not secret.startswith(WHSEC):
        return False
    try:
        return len(base64.b64decode(secret.removeprefix(WHSEC), validate=True)) >= SHORTEST_KEY
    except ValueError:
        return False
