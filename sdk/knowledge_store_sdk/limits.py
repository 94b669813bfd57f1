"""What an operator allows an analyzer to ask for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RetrievalLimits(BaseModel):
    """Caps only: they shrink what is asked for and never widen it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    max_top_k: int | None = Field(default=None, ge=1, description="No answer holds more documents than this.")
    min_score_floor: float | None = Field(default=None, ge=0, le=1, description="No hit scores less than this.")

    def top_k(self, asked: int) -> int:
        """The number of documents to ask for."""
        return asked if self.max_top_k is None else min(asked, self.max_top_k)

    def min_score(self, asked: float) -> float:
        """The floor to ask for."""
        return asked if self.min_score_floor is None else max(asked, self.min_score_floor)
