"""The HTTP API of batches: its routes and their roles."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.batches.callers import AnyCaller, ChunkCaller, SignedSender
from tabellion.pipelines.batches.request import NewChunk
from tabellion.pipelines.batches.routes import batches, process
from tabellion.web.policy import Policy

ROUTERS = (batches.router, process.router)
SHAPES = (*batches.SHAPES, NewChunk)
POLICY: Policy = {
    ("POST", "/process"): ChunkCaller(Role.OPERATOR),
    ("GET", "/status/{batch_id}/{chunk_id}"): ChunkCaller(Role.VIEWER),
    ("POST", "/ocr"): AnyCaller(),
    ("POST", "/callback/{batch_id}/ocr"): SignedSender(),
    ("GET", "/api/batches"): Role.VIEWER,
    ("POST", "/api/batches"): Role.OPERATOR,
    ("GET", "/api/batches/{batch_id}"): Role.VIEWER,
    ("GET", "/api/batches/{batch_id}/chunks"): Role.VIEWER,
    ("GET", "/api/batches/{batch_id}/chunks/{chunk_id}/callback"): Role.VIEWER,
    ("GET", "/api/batches/{batch_id}/errors"): Role.VIEWER,
    ("POST", "/api/batches/{batch_id}/retry"): Role.OPERATOR,
    ("POST", "/api/batches/{batch_id}/close"): Role.OPERATOR,
}
CLASHING = frozenset({("POST", "/process"), ("POST", "/api/batches"), ("POST", "/api/batches/{batch_id}/close")})
PROBLEMS = ("batch_conflict", "batch_gone", "batch_open")
