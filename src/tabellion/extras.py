"""Which extra brings which package, so that one that is not installed is told as the command that installs it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator, Sequence

from tabellion.errors import ConfigurationError

SERVICE = "server,reading"  #: what `tabellion up` needs

#: Packages by the name they are imported under, with the extras that bring each; the first is recommended.
BRINGS: dict[str, tuple[str, ...]] = {
    "argon2": ("server",),
    "asyncpg": ("postgres",),
    "cv2": ("reading",),
    "fastapi": ("server",),
    "google": ("gemini",),
    "h11": ("server", "fake"),
    "httpx2": ("server", "gemini", "openai"),
    "jinja2": ("server",),
    "jsonschema_rs": ("server", "gemini", "openai"),
    "numpy": ("reading",),
    "obstore": ("server",),
    "onnxruntime": ("reading",),
    "openai": ("openai",),
    "PIL": ("reading", "openai"),
    "playwright": ("browser",),
    "pyarrow": ("server",),
    "pydantic": ("reading", "server", "gemini", "openai"),
    "pypdfium2": ("reading", "fake"),
    "python_multipart": ("server",),
    "rapidfuzz": ("reading",),
    "rapidocr": ("reading",),
    "re2": ("reading",),
    "standardwebhooks": ("server",),
    "starlette": ("server", "fake"),
    "stdnum": ("reading",),
    "uvicorn": ("server", "fake"),
    "yaml": ("reading",),
}


class PackageMissingError(ConfigurationError):
    """Something needs a package that an extra brings."""


def explain(error: ModuleNotFoundError, extra: str = "") -> PackageMissingError | None:
    """The error with the command that mends it; None: the package is not one of ours.

    `extra` is recommended where it brings the package: the caller knows what else will be needed.
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
    """Raises unless every package of these extras is there: at the start, and not in the middle of the work."""
    wanted = set(extra.split(","))
    absent = [
        package for package, by in BRINGS.items() if by[0] in wanted and importlib.util.find_spec(package) is None
    ]
    if absent:
        raise _missing(absent, extra)


@contextlib.contextmanager
def explain_missing(extra: str = "") -> Iterator[None]:
    """Imports inside the block say which extra they miss."""
    try:
        yield
    except ModuleNotFoundError as error:
        told = explain(error, extra)
        if told is None:
            raise
        raise told from error


def _missing(packages: Sequence[str], extra: str) -> PackageMissingError:
    what = "the package is" if len(packages) == 1 else "these packages are"
    return PackageMissingError(
        f"{what} not installed: {', '.join(packages)}. Run pip install 'tabellion[{extra}]' "
        "(or 'tabellion[all]' for everything)"
    )
