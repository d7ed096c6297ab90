"""Settings: the file, then variables, and every error named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.config import load
from tabellion.errors import ConfigurationError


def written(folder: Path, text: str) -> Path:
    """Write a configuration file with this text."""
    file = folder / "tabellion.toml"
    file.write_text(text)
    return file


def test_the_default_is_sqlite_in_the_data_folder() -> None:
    """Without a file and variables."""
    found = load(variables={})
    assert [environment.url for environment in found.environments] == ["sqlite:///tabellion-data/tabellion.db"]
    assert (found.queues, found.concurrency, found.processes, found.log_level) == (None, 100, 1, "info")


def test_environments_keep_their_order_and_take_secrets_from_variables(tmp_path: Path) -> None:
    """Order in the file is polling order; `${NAME}` is replaced."""
    file = written(
        tmp_path,
        """
queues = "shop.queues"
[environments]
prod = "postgresql://u:${PROD_PASSWORD}@db/prod"
dev = { url = "sqlite:///dev.db", share = 2 }
[worker]
concurrency = 7
""",
    )
    found = load(file, {"PROD_PASSWORD": "s3cret"})
    assert [(one.name, one.url, one.share) for one in found.environments] == [
        ("prod", "postgresql://u:s3cret@db/prod", None),
        ("dev", "sqlite:///dev.db", 2),
    ]
    assert (found.queues, found.concurrency) == ("shop.queues", 7)
    assert "s3cret" not in found.environments[0].address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quues = 'x'", "unknown key 'quues'; did you mean 'queues'"),
        ("[worker]\nconcurency = 3", "unknown key 'worker.concurency'; did you mean 'worker.concurrency'"),
        ("[worker]\nconcurrency = 'many'", "worker.concurrency = 'many' is not valid"),
        ("[worker]\nconcurrency = true", "worker.concurrency = True is not valid"),
        ("[worker]\nconcurrency = 0", "worker.concurrency: 0 must be at least 1"),
        ("[log]\nlevel = 'loud'", "log.level: 'loud' is not one of"),
        ("[environments]\nprod = 3", "environments.prod: write prod ="),
        ("[environments]\nprod = { url = 'sqlite:///x', shares = 3 }", "environments.prod: unknown key 'shares'"),
        ("[environments]\n'a b' = 'sqlite:///x'", "environment name 'a b'"),
        ("[environments]\nprod = { url = 5 }", 'environments.prod: write prod = "URL" or'),
        ("[worker]\npoll = 0", "worker.poll: 0 must be more than 0"),
        ("[worker]\npoll = -1", "worker.poll: -1 must be more than 0"),
        ("[worker]\npoll = nan", "worker.poll: nan must be more than 0"),
        ("[worker]\ngrace = -5", "worker.grace: -5 must be 0 or more"),
        ("[worker]\ngrace = nan", "worker.grace: nan must be 0 or more"),
        ("[prices]\ngpt = 5", "prices.gpt: write { input ="),
        ("[prices]\ngpt = { inptu = 5 }", "prices.gpt: write { input ="),
        ("[prices]\ngpt = { input = 'cheap', output = 1 }", "prices.gpt: input = 'cheap' is not a number"),
        ("[environments]\nprod = '${NOPE}'", "the environment variable NOPE is not set"),
        ("queues = ", "tabellion.toml"),
    ],
)
def test_an_error_in_the_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    """Unknown keys, wrong types and missing variables say which key and what to write."""
    with pytest.raises(ConfigurationError) as caught:
        load(written(tmp_path, text), {})
    assert message in str(caught.value)


def test_variables_override_the_file(tmp_path: Path) -> None:
    """`TABELLION_*` first, then the names people already have."""
    file = written(tmp_path, "[worker]\nconcurrency = 7\n[log]\nlevel = 'error'\n")
    variables = {
        "TABELLION_CONCURRENCY": "9",
        "LOG_LEVEL": "debug",
        "TABELLION_LOG_JSON": "yes",
        "TABELLION_DATABASE_URL": "sqlite:///v.db",
    }
    found = load(file, variables)
    assert (found.concurrency, found.log_level, found.log_json) == (9, "debug", True)
    assert [one.url for one in found.environments] == ["sqlite:///v.db"]


def test_database_url_is_used_where_the_file_names_none(tmp_path: Path) -> None:
    """The file's environments are kept; without them DATABASE_URL is one."""
    file = written(tmp_path, "[environments]\nprod = 'sqlite:///prod.db'")
    variables = {"DATABASE_URL": "sqlite:///other.db"}
    assert [one.name for one in load(file, variables).environments] == ["prod"]
    assert [one.url for one in load(written(tmp_path, ""), variables).environments] == ["sqlite:///other.db"]


@pytest.mark.parametrize(("name", "text"), [("TABELLION_CONCURRENCY", "many"), ("TABELLION_LOG_JSON", "perhaps")])
def test_an_error_in_a_variable_is_named(name: str, text: str) -> None:
    """The variable and its value are in the message."""
    with pytest.raises(ConfigurationError, match=f"{name}='{text}'"):
        load(variables={name: text})


def test_an_explicit_file_must_exist(tmp_path: Path) -> None:
    """--config with a wrong name is an error, not the default."""
    with pytest.raises(ConfigurationError, match="file not found"):
        load(tmp_path / "nope.toml", {})


def test_folders_of_types(tmp_path: Path) -> None:
    """One folder or several; a variable separates them like PATH, and wins."""
    assert load(variables={}).types == (Path("types"),)
    assert load(written(tmp_path, "types = 'mine'"), {}).types == (Path("mine"),)
    file = written(tmp_path, "types = ['mine', '/srv/types']")
    assert load(file, {}).types == (Path("mine"), Path("/srv/types"))
    assert load(file, {"TABELLION_TYPES": "a:b"}).types == (Path("a"), Path("b"))
    with pytest.raises(ConfigurationError, match="types: 3 is not a folder"):
        load(written(tmp_path, "types = [3]"), {})


def test_default_paths_and_host(tmp_path: Path) -> None:
    """The data folder has the database and the outputs unless they are configured; the API stays on loopback."""
    found = load(variables={})
    assert (found.data, found.lake, found.host, found.port) == (
        Path("tabellion-data"),
        "tabellion-data",
        "127.0.0.1",
        8080,
    )
    file = written(
        tmp_path,
        """
data = "/srv/t"
[server]
host = "0.0.0.0"
port = 9000
upload_bytes = 5
allow = ["10.0.0.0/8"]
""",
    )
    found = load(file, {"TABELLION_LAKE": "s3://b/${P}", "P": "x", "TABELLION_PORT": "0"})
    assert (found.environments[0].url, found.lake) == ("sqlite:////srv/t/tabellion.db", "s3://b/x")
    assert (found.host, found.port, found.upload_bytes, found.allow) == ("0.0.0.0", 0, 5, ("10.0.0.0/8",))
    assert load(file, {"TABELLION_ALLOW": "10.0.0.0/8, fd00::/8"}).allow == ("10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nport = 70000", "server.port: 70000 is not a valid port"),
        ("[worker]\nmetrics_port = -1", "worker.metrics_port: -1 is not a valid port"),
        ("[server]\nmetrics = 'everybody'", "server.metrics: 'everybody' is not one of key, loopback"),
        ("[server]\nupload_bytes = 0", "server.upload_bytes: 0 must be at least 1"),
        ("[server]\nallow = ['intranet']", "server.allow: 'intranet' is not a network"),
        ("[server]\nallow = [5]", "server.allow: 5 is not a network; write it like 10.0.0.0/8"),
        ("[server]\nproxies = [5]", "server.proxies: 5 is not a network; write it like 10.0.0.0/8"),
        ("[server]\nhots = 'x'", "did you mean 'server.host'"),
    ],
)
def test_an_error_in_the_server_settings_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The key and what to write instead."""
    with pytest.raises(ConfigurationError) as caught:
        load(written(tmp_path, text), {})
    assert message in str(caught.value)


def test_documents_and_review_are_configured(tmp_path: Path) -> None:
    """In the file, overridden by variables; an invalid value is rejected with its key."""
    file = tmp_path / "tabellion.toml"
    file.write_text('[documents]\nmodel = "gemini"\nocr = "never"\nsla = 60\n[review]\nlease = 30\n')
    config = load(file, {"TABELLION_DEFAULT_MODEL": "local", "TABELLION_PAGES_SENT": "3"})
    assert config.section("documents") == {"model": "local", "ocr": "never", "sla": 60, "pages_sent": 3}
    assert config.section("review") == {"lease": 30}
    for key, value, said in (
        ("ocr", '"maybe"', "documents.ocr"),
        ("timeout", "0", "documents.timeout: 0 must be more"),
    ):
        file.write_text(f"[documents]\n{key} = {value}\n")
        with pytest.raises(ConfigurationError, match=said):
            load(file, {})


def test_the_broker_is_named_by_the_file_or_a_variable(tmp_path: Path) -> None:
    """`TABELLION_BROKER` wins over `REDIS_URL`, which wins over the file; another program's Redis URL is ignored."""
    file = tmp_path / "tabellion.toml"
    file.write_text('[celery]\nbroker = "amqp://guest:${SECRET}@rabbit//"\nprefix = "shop"\n')
    config = load(file, {"SECRET": "s"})
    assert (config.broker, config.celery_prefix) == ("amqp://guest:s@rabbit//", "shop")
    assert "guest:s" not in repr(config)
    assert load(file, {"SECRET": "s", "REDIS_URL": "redis://a/1"}).broker == "redis://a/1"
    assert load(file, {"REDIS_URL": "redis://a/1", "TABELLION_BROKER": "rediss://b/2"}).broker == "rediss://b/2"
    assert load(file, {"SECRET": "s", "REDIS_URL": "unix:///run/redis"}).broker == "amqp://guest:s@rabbit//"
    for unknown in ("kafka://a", "sentinel://a:26379"):
        with pytest.raises(ConfigurationError, match=r"celery\.broker: a URL begins with"):
            load(file, {"TABELLION_BROKER": unknown})
    for wrong in (
        "redis://:sec/ret@a:6379/0",
        "redis://:sec#ret@a/0",
        "amqp://guest:123/4@a//",
        "redis://:secret@a:b/0",
        "redis://:secret@a/jobs",
    ):
        with pytest.raises(ConfigurationError, match=r"celery\.broker: the URL cannot be read") as caught:
            load(None, {"REDIS_URL": wrong})
        assert "sec" not in str(caught.value)
    assert (
        load(None, {"REDIS_URL": "redis://:sec%2Fret@a/0;redis://b/0"}).broker == "redis://:sec%2Fret@a/0;redis://b/0"
    )
    assert load(None, {}).broker is None
