"""Which extra installs which package, so that the error for a missing one contains the command that installs it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Iterator, Sequence

from tabellion.errors import ConfigurationError

SERVICE = "server,reading"  #: what `tabellion up` needs

#: Packages by import name, with the extras that install each; the first is recommended.
BRINGS: dict[str, tuple[str, ...]] = {
    "argon2": ("server",),
    "asyncpg": ("postgres",),
    "billiard": ("celery",),
    "celery": ("celery",),
    "charset_normalizer": ("websites",),
    "cv2": ("reading",),
    "fastapi": ("server",),
    "google": ("gemini",),
    "h11": ("server", "fake"),
    "httpx2": ("server", "gemini", "openai", "websites"),
    "jinja2": ("server",),
    "jsonschema_rs": ("server", "gemini", "openai"),
    "kombu": ("celery",),
    "lxml": ("websites",),
    "lxml_html_clean": ("websites",),
    "numpy": ("reading",),
    "obstore": ("server",),
    "onnxruntime": ("reading",),
    "PIL": ("reading", "openai", "websites"),
    "phonenumbers": ("websites",),
    "opentelemetry": ("otel",),
    "playwright": ("browser",),
    "prometheus_client": ("server", "metrics"),
    "protego": ("websites",),
    "pyarrow": ("server",),
    "pydantic": ("reading", "server", "gemini"),
    "pypdfium2": ("reading", "fake"),
    "python_multipart": ("server",),
    "rapidfuzz": ("reading",),
    "rapidocr": ("reading",),
    "re2": ("reading",),
    "redis": ("celery",),
    "standardwebhooks": ("server",),
    "starlette": ("server", "fake"),
    "stdnum": ("reading",),
    "trafilatura": ("websites",),
    "uvicorn": ("server", "fake"),
    "yaml": ("reading", "websites"),
}


class PackageMissingError(ConfigurationError):
    """Something needs a package that an extra brings."""


def explain(error: ModuleNotFoundError, extra: str = "") -> PackageMissingError | None:
    """The error with the command that fixes it; None if the package belongs to no extra.

    `extra` is recommended if it installs the package: the caller knows what else will be needed.
    """
    package = (error.name or "").partition(".")[0]
    brought_by = BRINGS.get(package)
    if brought_by is None:
        return None
    if not set(extra.split(",")) & set(brought_by):
        extra = brought_by[0]
    return _missing([package], extra)


@functools.cache
def require(extra: str) -> None:
    """Raises unless every package of these extras is installed: at the start, not in the middle of the work."""
    extras = set(extra.split(","))
    absent = [
        package
        for package, brought_by in BRINGS.items()
        # Celery replaces modules that it loads lazily by ones without the description that is looked for.
        if brought_by[0] in extras and package not in sys.modules and importlib.util.find_spec(package) is None
    ]
    if absent:
        raise _missing(absent, extra)


@contextlib.contextmanager
def explain_missing(extra: str = "") -> Iterator[None]:
    """Failed imports inside the block raise an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        explained = explain(error, extra)
        if explained is None:
            raise
        raise explained from error


def _missing(packages: Sequence[str], extra: str) -> PackageMissingError:
    subject = "the package is" if len(packages) == 1 else "these packages are"
    return PackageMissingError(
        f"{subject} not installed: {', '.join(packages)}. Run pip install 'tabellion[{extra}]' "
        "(or 'tabellion[all]' for everything)"
    )
