"""All settings: the keys of `tabellion.toml`, and the environment variables that set them."""

from __future__ import annotations

#: Every key of the file, with its type and one line on it; the docs table is checked against it.
KEYS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "queues": (str, "the module that declares your queues, e.g. `shop.queues`"),
    "pipelines": (list, 'pipelines that run here, e.g. `["documents"]` (none)'),
    "environments": (dict, "name = URL, or name = { url = …, share = … }; order is polling order"),
    "worker.concurrency": (int, "jobs one worker process runs at once (100)"),
    "worker.processes": (int, "worker processes that `tabellion worker` keeps alive (1)"),
    "worker.name": (str, "the first part of each worker's id; a UUID follows (worker-HOST-PID)"),
    "worker.grace": ((int, float), "seconds that running handlers get to finish on SIGTERM (30)"),
    "worker.poll": ((int, float), "seconds between polls when no notification arrives (1)"),
    "worker.metrics_port": (int, "the port of each worker's metrics; several processes use the ones after it (none)"),
    "worker.metrics_host": (str, "the address on which workers serve their metrics, without a key (127.0.0.1)"),
    "celery.broker": (str, "the URL of the broker for `tabellion worker --celery`: `redis://…` or `amqp://…`"),
    "celery.prefix": (str, "the first part of the names of queues at the broker (tabellion)"),
    "gates": (
        dict,
        "name = { profile = …, rate = …, min_rate = …, max_rate = …, budget = …, threshold = …, recovery = … }",
    ),
    "gates_at": (str, "the environment whose database keeps the gates for all of them (the first)"),
    "models": (dict, "name = { model = …, key = …, base_url = …, gate = … }; see the page on models"),
    "prices": (dict, "model = { input = …, output = …, cached = … } in dollars per million tokens"),
    "types": ((str, list), "the folder, or a list of folders, with your own document types (./types)"),
    "data": (str, "the folder for the files of this installation (./tabellion-data)"),
    "lake": (str, "where outputs are written: a folder, or s3://bucket/prefix (the data folder)"),
    "blobs": (str, "where received files are stored: a folder, or s3://bucket/prefix (the data folder)"),
    "cache_bytes": (int, "bytes of copies that a machine caches of files in a bucket (10000000000)"),
    "server.host": (str, "the address that the API listens on (127.0.0.1)"),
    "server.port": (int, "the port that the API listens on (8080)"),
    "server.public_url": (
        str,
        "the address that browsers use, e.g. `https://docs.example.com`, if there is a proxy in front",
    ),
    "server.proxies": (
        list,
        "networks of the proxies whose `X-Forwarded-For` is trusted, as CIDR (`127.0.0.0/8` and `::1/128`)",
    ),
    "server.upload_bytes": (int, "bytes that one uploaded file may have (100000000)"),
    "server.json_bytes": (int, "bytes that a JSON body, or a field of a form, may have (1000000)"),
    "server.rate": ((int, float), "requests per second that one key or person may make; 0: no limit (200)"),
    "server.allow": (list, "your own networks that URLs may point to, as CIDR, e.g. `10.0.0.0/8`"),
    "server.all_workers": (bool, "whether admins of this environment see who works on what in all of them (true)"),
    "server.metrics": (
        str,
        "who reads `/api/metrics`: `key`, or `loopback`: also without a key from the same machine, for all "
        "environments (key)",
    ),
    "retention.attempts": (
        (str, int),
        'how long attempts of rows that have ended are kept, e.g. "90d"; "never": they are not removed (never)',
    ),
    "retention.memos": ((str, int), "how long answers that were paid for are kept (never)"),
    "retention.deliveries": ((str, int), "how long accepted webhook deliveries are kept (30d)"),
    "log.level": (str, "debug, info, warning or error (info)"),
    "log.json": (bool, "one JSON object per line instead of text (false)"),
}

#: Environment variables and the key each one sets; the first that is set wins.
VARIABLES: dict[str, str] = {
    "TABELLION_QUEUES": "queues",
    "TABELLION_PIPELINES": "pipelines",
    "TABELLION_CONCURRENCY": "worker.concurrency",
    "TABELLION_PROCESSES": "worker.processes",
    "TABELLION_WORKER_NAME": "worker.name",
    "TABELLION_GRACE": "worker.grace",
    "TABELLION_POLL": "worker.poll",
    "TABELLION_METRICS_PORT": "worker.metrics_port",
    "TABELLION_METRICS_HOST": "worker.metrics_host",
    "TABELLION_BROKER": "celery.broker",
    "REDIS_URL": "celery.broker",
    "TABELLION_CELERY_PREFIX": "celery.prefix",
    "TABELLION_GATES_AT": "gates_at",
    "TABELLION_TYPES": "types",
    "TABELLION_DATA": "data",
    "TABELLION_LAKE": "lake",
    "TABELLION_BLOBS": "blobs",
    "TABELLION_CACHE_BYTES": "cache_bytes",
    "TABELLION_HOST": "server.host",
    "TABELLION_PORT": "server.port",
    "TABELLION_PUBLIC_URL": "server.public_url",
    "TABELLION_PROXIES": "server.proxies",
    "TABELLION_UPLOAD_BYTES": "server.upload_bytes",
    "TABELLION_JSON_BYTES": "server.json_bytes",
    "TABELLION_RATE": "server.rate",
    "TABELLION_ALLOW": "server.allow",
    "TABELLION_ALL_WORKERS": "server.all_workers",
    "TABELLION_METRICS": "server.metrics",
    "TABELLION_RETENTION_ATTEMPTS": "retention.attempts",
    "TABELLION_RETENTION_MEMOS": "retention.memos",
    "TABELLION_RETENTION_DELIVERIES": "retention.deliveries",
    "TABELLION_LOG_LEVEL": "log.level",
    "LOG_LEVEL": "log.level",
    "TABELLION_LOG_JSON": "log.json",
}
DATABASE_VARIABLES = ("TABELLION_DATABASE_URL", "DATABASE_URL")
TABLES = ("environments", "gates", "models", "prices")  #: keys whose own keys are chosen by the user
