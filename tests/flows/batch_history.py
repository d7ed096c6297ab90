"""What a batch left behind, and the checks of it: refs, published content, histories of entities, callbacks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tabellion.pipelines.batches.settings import BatchSettings
from tabellion.pipelines.batches.states import REFS_QUEUE
from tests.pipelines.batches.material import rows

Row = dict[str, Any]


@dataclass
class History:
    """The rows, the content by CID, the callbacks that were accepted with their ids, and the calls of the model."""

    batches: list[Row]
    chunks: list[Row]
    pis: list[Row]
    refs: list[Row]
    entities: list[Row]
    versions: list[Row]
    content: dict[str, Row]
    callbacks: list[tuple[str, Row]]
    calls: int
    crashes: int  #: attempts at refs whose worker died or lost its lease: the calls of these were in vain


def read_history(url: str, settings: BatchSettings, callbacks: list[tuple[str, Row]], calls: int) -> History:
    """Reads everything from the database and the content store."""
    tables = {
        name: rows(url, f"SELECT * FROM {table}")
        for name, table in {
            "batches": "batches", "chunks": "batch_chunks", "pis": "batch_pis", "refs": "batch_refs",
            "entities": "batch_entities", "versions": "batch_versions",
        }.items()
    }  # fmt: skip
    cids = {ref["result_cid"] for ref in tables["refs"]} | {one["tip"] for one in tables["versions"]}

    async def load() -> dict[str, Row]:
        return {cid: json.loads(await settings.content.get(cid)) for cid in cids if cid is not None}

    ended = f"SELECT count(*) AS n FROM tabellion_attempts WHERE queue = '{REFS_QUEUE}' AND outcome = 'crashed'"
    [crashed] = rows(url, ended)
    return History(**tables, content=asyncio.run(load()), callbacks=callbacks, calls=calls, crashes=crashed["n"])


def violations(history: History) -> list[str]:
    """Returns what must not be, as sentences; empty if the batch kept its promises."""
    return [*_open_work(history), *_results(history), *_forks(history), *_callbacks(history)]


def _open_work(history: History) -> Iterator[str]:
    for batch in history.batches:
        if batch["status"] != "complete":
            yield f"batch {batch['id']} is {batch['status']}"
    for chunk in history.chunks:
        if (chunk["phase"], chunk["report"]) != ("DONE", "written"):
            yield f"chunk {chunk['id']} is {chunk['phase']}, its report {chunk['report']}"
    for ref in history.refs:
        if ref["status"] != "done":
            yield f"ref {ref['filename']} is {ref['status']}: {ref['error']}"
    if not len(history.refs) <= history.calls <= len(history.refs) + history.crashes:
        yield f"{history.calls} calls for {len(history.refs)} refs and {history.crashes} crashes"


def _results(history: History) -> Iterator[str]:
    """Each ref has one result: its own file with a text, in the newest version of its entity and never another one."""
    names = {(pi["chunk"], pi["position"]): pi["pi"] for pi in history.pis}
    newest = {one["pi"]: history.content.get(one["tip"], {}).get("components", {}) for one in history.entities}
    ever: dict[tuple[str, str], set[str]] = defaultdict(set)
    for version in history.versions:
        for filename, cid in history.content[version["tip"]]["components"].items():
            ever[version["pi"], filename].add(cid)
    for ref in history.refs:
        pi, cid = names[ref["chunk"], ref["pi_position"]], ref["result_cid"]
        file = history.content.get(cid, {})
        if not isinstance(file.get("ocr"), str) or not file["ocr"] or file.get("url") != ref["cdn_url"]:
            yield f"ref {ref['filename']} has no text under {cid}"
        if newest.get(pi, {}).get(ref["filename"]) != cid:
            yield f"ref {ref['filename']} is not in the newest version of {pi}"
        if len(ever[pi, ref["filename"]]) != 1:
            yield f"ref {ref['filename']} was published as {sorted(ever[pi, ref['filename']])}"


def _forks(history: History) -> Iterator[str]:
    """Each version follows the one before it, and each chunk appended one."""
    by_pi: dict[str, list[Row]] = defaultdict(list)
    for version in history.versions:
        by_pi[version["pi"]].append(version)
    tips = {one["pi"]: (one["tip"], one["version"]) for one in history.entities}
    sent = {pi["pi"]: pi["current_tip"] for pi in history.pis}
    for pi, tip in sent.items():
        chain = sorted(by_pi[pi], key=lambda one: one["version"])
        if [one["version"] for one in chain] != list(range(1, len(chain) + 1)):
            yield f"the versions of {pi} are {[one['version'] for one in chain]}"
        for one in chain:
            manifest = history.content[one["tip"]]
            if one["previous"] != tip or (manifest["previous"], manifest["version"]) != (tip, one["version"]):
                yield f"version {one['version']} of {pi} follows {one['previous']}, not {tip}"
            tip = one["tip"]
        if tips.get(pi) != (tip, len(chain)):
            yield f"the tip of {pi} is {tips.get(pi)}, not {(tip, len(chain))}"
    appended = Counter((one["chunk"], one["pi"]) for one in history.versions)
    for pi_row in history.pis:
        if appended[pi_row["chunk"], pi_row["pi"]] != 1:
            yield f"{pi_row['chunk']} appended {appended[pi_row['chunk'], pi_row['pi']]} versions to {pi_row['pi']}"


def _callbacks(history: History) -> Iterator[str]:
    """Each chunk is reported by one message, however often it arrived, and the message says what the rows say."""
    versions = {(one["chunk"], one["pi"]): one for one in history.versions}
    results: dict[str, dict[str, str]] = defaultdict(dict)
    for ref in history.refs:
        results[ref["chunk"]][ref["filename"]] = ref["result_cid"]
    messages: dict[str, Row] = {}
    for id_, body in history.callbacks:
        if messages.setdefault(id_, body) != body:
            yield f"message {id_} arrived with two contents"
    counted = Counter(f"ocr:{body['batch_id']}:{body['chunk_id']}" for body in messages.values())
    for chunk in history.chunks:
        if counted[chunk["id"]] != 1:
            yield f"{chunk['id']} was reported {counted[chunk['id']]} times"
    for body in messages.values():
        name = f"ocr:{body['batch_id']}:{body['chunk_id']}"
        told = {ref["filename"]: ref["result_cid"] for one in body["results"] for ref in one["completed_refs"]}
        if body["status"] != "success" or told != results[name]:
            yield f"the callback of {name} says {body['status']} with {len(told)} results"
        for one in body["results"]:
            version = versions.get((name, one["pi"]))
            if version is None or (one["new_tip"], one["new_version"]) != (version["tip"], version["version"]):
                yield f"the callback of {name} names another version of {one['pi']}"
