"""The files of extractions: stored once, and opened only from allowed places."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.errors import ConfigurationError
from tabellion.extractions.storage import AddressRefused, DownloadFailed, ExtractionFiles, FileMissing, files_of
from tabellion.net.guard import Rules
from tabellion.storage.lake import Lake
from tests.engine.made_tables import asynchronous

PDF = b"%PDF-1.7 deed"


def written(folder: Path, name: str = "deed.pdf", data: bytes = PDF) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


@asynchronous
async def test_a_file_is_stored_once_and_comes_back(lake: Lake, tmp_path: Path) -> None:
    """In a folder or a bucket; the address does not depend on the machine that stored it."""
    stored = ExtractionFiles(lake)
    first = await stored.save(written(tmp_path / "one"))
    assert first == await stored.save(written(tmp_path / "two"))
    assert first.startswith("extractions/")
    assert first.endswith(".pdf")
    (tmp_path / "job").mkdir()
    assert (await stored.download(first, tmp_path / "job")).read_bytes() == PDF
    with pytest.raises(FileMissing, match="there is no file at"):
        await stored.download("extractions/00/other.pdf", tmp_path / "job")


@asynchronous
async def test_an_object_is_opened_only_in_an_allowed_bucket(s3_url: str, tmp_path: Path) -> None:
    """The lake's own bucket is allowed; any other must be configured."""
    await Lake(s3_url).put("scans/a.pdf", PDF)
    for stored in (ExtractionFiles(Lake(s3_url)), ExtractionFiles(Lake(tmp_path), opened=[f"{s3_url}/scans"])):
        assert (await stored.download(f"{s3_url}/scans/a.pdf", tmp_path)).read_bytes() == PDF
        with pytest.raises(AddressRefused, match=r"extractions\.open"):
            await stored.download("s3://another/a.pdf", tmp_path)
    with pytest.raises(AddressRefused):
        await ExtractionFiles(Lake(tmp_path)).download(f"{s3_url}/scans/a.pdf", tmp_path)


@asynchronous
async def test_a_local_file_is_opened_only_in_an_allowed_folder(tmp_path: Path) -> None:
    """A link that leads out of an allowed folder is not followed."""
    inside, outside = written(tmp_path / "scans"), written(tmp_path / "secrets")
    (tmp_path / "scans" / "link.pdf").symlink_to(outside)
    (tmp_path / "job").mkdir()
    stored = ExtractionFiles(Lake(tmp_path / "lake"), opened=[str(tmp_path / "scans")])
    for address in (str(inside), inside.as_uri()):
        assert (await stored.download(address, tmp_path / "job")).read_bytes() == PDF
    for address in (str(outside), f"{tmp_path}/scans/../secrets/deed.pdf", f"{tmp_path}/scans/link.pdf"):
        with pytest.raises(AddressRefused, match=r"extractions\.open"):
            await stored.download(address, tmp_path / "job")
    with pytest.raises(FileMissing):
        await stored.download(f"{tmp_path}/scans/none.pdf", tmp_path / "job")


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8080/a.pdf", "https://169.254.169.254/a", "ftp://example.com/a", "../a.pdf", "a//b"]
)
def test_a_forbidden_address_is_rejected(address: str, tmp_path: Path) -> None:
    """Private addresses, other protocols, paths out of the lake."""
    with pytest.raises(AddressRefused):
        asyncio.run(ExtractionFiles(Lake(tmp_path)).download(address, tmp_path))


def test_a_host_that_does_not_resolve_is_worth_another_try(tmp_path: Path) -> None:
    """The row is not to blame for DNS: the error is not permanent, and names the file, the host and the cause."""

    async def fail(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    stored = ExtractionFiles(Lake(tmp_path), Rules(resolver=fail))
    with pytest.raises(DownloadFailed) as failed:
        asyncio.run(stored.download("https://files.example/a.pdf?token=hush", tmp_path))
    assert str(failed.value) == (
        "'https://files.example/a.pdf' could not be downloaded: files.example cannot be reached: "
        "its name cannot be resolved now: DNS does not answer"
    )


def test_a_secret_in_an_address_is_not_repeated(tmp_path: Path) -> None:
    """Signed URLs have their key in the query, which errors leave out."""
    with pytest.raises(AddressRefused) as refused:
        asyncio.run(ExtractionFiles(Lake(tmp_path)).download("s3://other/a.pdf?X-Amz-Signature=hush", tmp_path))
    assert "hush" not in str(refused.value)


def test_a_file_over_the_limit_is_rejected(tmp_path: Path) -> None:
    """Before it is copied."""
    stored = ExtractionFiles(Lake(tmp_path / "lake"), opened=[str(tmp_path)], limit=4)
    with pytest.raises(AddressRefused, match="limit of 4 bytes"):
        asyncio.run(stored.download(str(written(tmp_path)), tmp_path))


@asynchronous
async def test_a_stored_file_is_found_whatever_the_order_of_environments(tmp_path: Path) -> None:
    """Its address is its hash, and all environments store such files in one place; other paths are kept apart."""
    prod, dev = Environment("prod", "sqlite:///a.db"), Environment("dev", "sqlite:///b.db")
    before = Config(environments=(prod, dev), lake=str(tmp_path / "lake"))
    after = Config(environments=(dev, prod), lake=str(tmp_path / "lake"))
    (tmp_path / "job").mkdir()
    address = await files_of(before, dev).save(written(tmp_path / "fetched"))
    assert (await files_of(after, dev).download(address, tmp_path / "job")).read_bytes() == PDF
    await files_of(before, prod).lake.put("scans/a.pdf", PDF)
    with pytest.raises(FileMissing):
        await files_of(before, dev).download("scans/a.pdf", tmp_path / "job")


def test_each_environment_has_its_own_folder(tmp_path: Path) -> None:
    """The first uses the lake itself; `extractions.open` must list folders or buckets."""
    places = (Environment("prod", "sqlite:///a.db"), Environment("dev", "sqlite:///b.db"))
    config = Config(environments=places, lake=str(tmp_path), sections={"extractions": {"open": ["/srv/scans"]}})
    assert files_of(config).lake.url == str(tmp_path)
    assert files_of(config, places[1]).lake.url == f"{tmp_path}/dev"
    assert files_of(config).opened == ("/srv/scans",)
    wrong = Config(environments=places, lake=str(tmp_path), sections={"extractions": {"open": ["https://x"]}})
    with pytest.raises(ConfigurationError, match=r"extractions\.open"):
        files_of(wrong)
