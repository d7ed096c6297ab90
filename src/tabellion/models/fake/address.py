"""The address of a fake model, and the environment variables that point clients to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A running server's address."""

    url: str
    log: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point clients to this server; Google's own client reads the second name."""
        return {
            "GEMINI_BASE_URL": self.url,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": "fake",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "fake",
        }

    @property
    def line(self) -> str:
        """One line for a shell."""
        values = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return f"export {values}  # fake model on {self.url}"

    def as_json(self) -> dict[str, Any]:
        """The address for programs."""
        return {"url": self.url, "log": self.log, "environment": self.environment}
