"""The phases of a website job, and the column values that make its states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tabellion.engine.queue import QueueStates


class JobStatus(StrEnum):
    """The values of `website_jobs.status`: the phase that comes next, or how the job ended."""

    NOT_STARTED = "not-started"  #: the website is visited next
    PROMPT_FORMING = "prompt-forming"  #: its prompts are written next
    MODEL_ANALYSIS = "model-analysis"  #: models are asked next
    COMPLETED = "completed"
    FAILED = "failed"


class AnalysisStatus(StrEnum):
    """The values of `website_analyses.status`, one row for each of several models."""

    READY = "ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


#: A job in one of these is open: its URL and type are not accepted a second time.
OPEN = (JobStatus.NOT_STARTED, JobStatus.PROMPT_FORMING, JobStatus.MODEL_ANALYSIS)
ENDED = (JobStatus.COMPLETED, JobStatus.FAILED)


@dataclass(frozen=True, slots=True)
class WebsitePhase:
    """One phase: its queue, the status before and after it, and the prefix of its columns."""

    queue: str
    status: JobStatus
    following: JobStatus
    prefix: str  #: of `<prefix>_started_at`, `_finished_at`, `_attempts`, `_error` and `_worker`

    @property
    def states(self) -> dict[str, Any]:
        """The four states of its queue. `inProgress` is part of each: one UPDATE locks a row."""
        return {
            "ready": {"status": self.status.value, "inProgress": False},
            "running": {"inProgress": True},
            "done": {"status": self.following.value, "inProgress": False},
            "failed": {"status": JobStatus.FAILED.value, "inProgress": False},
        }


#: In order; the state after one phase is the state before the next.
PHASES = (
    WebsitePhase("website-analysis", JobStatus.NOT_STARTED, JobStatus.PROMPT_FORMING, "info"),
    WebsitePhase("prompt-forming", JobStatus.PROMPT_FORMING, JobStatus.MODEL_ANALYSIS, "prompts"),
    WebsitePhase("model-analysis", JobStatus.MODEL_ANALYSIS, JobStatus.COMPLETED, "analysis"),
)
INFO, PROMPTS, ANALYSIS = PHASES
MODELS = "website-models"  #: the queue of `website_analyses`

ANALYSES: QueueStates = {
    "ready": AnalysisStatus.READY, "running": AnalysisStatus.RUNNING, "done": AnalysisStatus.COMPLETED,
    "failed": AnalysisStatus.FAILED,
}  # fmt: skip
