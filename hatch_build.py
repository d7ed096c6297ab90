"""The package's readme: the README with absolute links, because a package index has no files to link to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"(!\[[^\]]*\]\()(?!https?:|#)")
LINK = re.compile(r"(?<!!)(\[[^\]]*\]\()(?!https?:|#)")


def absolute(text: str, homepage: str) -> str:
    """The text with links to files of the repository as addresses on the web."""
    raw = homepage.replace("://github.com/", "://raw.githubusercontent.com/")
    return LINK.sub(rf"\g<1>{homepage}/blob/main/", PICTURE.sub(rf"\g<1>{raw}/main/", text))


class Readme(MetadataHookInterface):
    """Gives the package its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when the package is built."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        homepage = self.config.get("homepage") or metadata["urls"]["Homepage"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, homepage)}
