"""The files of a website job: what a visit found, its images, and the prompts as they were sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tabellion.pipelines.websites.prompts import Prompt
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.storage.blobs import Blobs

MOST_LISTED = 20  #: contacts, technologies and the like that the row has


async def save_info(blobs: Blobs, info: WebsiteInfo, folder: Path) -> dict[str, str | None]:
    """Stores what a visit found; returns the columns of the row: a short version, and the hashes of the files."""
    whole = json.dumps(info.as_dict(), ensure_ascii=False).encode()
    return {
        "title": (info.title or info.site_name)[:500], "info": json.dumps(shorten(info), ensure_ascii=False),
        "info_file": await save_bytes(blobs, whole),
        "screenshot_file": await _save_file(blobs, folder, info.screenshot),
        "favicon_file": await _save_file(blobs, folder, info.favicon),
    }  # fmt: skip


async def load_info(blobs: Blobs, sha256: str) -> WebsiteInfo:
    """What a visit found; raises FileNotFoundError if the file is gone."""
    data = await blobs.load(sha256)
    return WebsiteInfo.from_dict(json.loads(data))


async def save_prompt(blobs: Blobs, prompt: Prompt) -> str:
    """Stores a prompt as it is sent; returns its hash."""
    return await save_bytes(blobs, prompt.as_json())


async def load_prompt(blobs: Blobs, sha256: str) -> Prompt:
    """A stored prompt; raises FileNotFoundError if the file is gone."""
    return Prompt.from_json(await blobs.load(sha256))


async def save_bytes(blobs: Blobs, data: bytes) -> str:
    """Stores bytes and returns their hash."""
    async with blobs.receive() as sink:
        await sink.write(data)
    return sink.blob.sha256


async def _save_file(blobs: Blobs, folder: Path, name: str) -> str | None:
    if not name or Path(name).name != name:
        return None
    return (await blobs.take(folder / name)).sha256


def shorten(info: WebsiteInfo) -> dict[str, Any]:
    """What lists and pages show of a website, without texts."""
    whole = info.as_dict()
    keys = ("final_url", "fetched_at", "status", "redirects", "rendered", "render_reason", "title", "page_title",
            "description", "language", "canonical", "site_name", "robots", "tls", "timings", "issues",
            "headers")  # fmt: skip
    short = {key: whole[key] for key in keys if key in whole}
    contacts = {name: found[:MOST_LISTED] for name, found in whole["contacts"].items()}
    return short | {
        "contacts": contacts, "social": whole["social"][:MOST_LISTED],
        "technologies": whole["technologies"][:MOST_LISTED],
        "links": {"internal": info.links.internal_count, "external": info.links.external_count},
        "pages": [
            {"url": page.url, "title": page.title, "status": page.status, "found": page.found,
             "words": len(page.text.split()), "rendered": page.rendered}
            for page in info.pages
        ],
        "words": sum(len(page.text.split()) for page in info.pages),
        "headings": [[heading.level, heading.text] for heading in info.headings[:MOST_LISTED]],
        **({"translatable": whole["translatable"]} if "translatable" in whole else {}),
    }  # fmt: skip
