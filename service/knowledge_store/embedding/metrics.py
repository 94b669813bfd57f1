"""What embedding reports about itself."""

from __future__ import annotations

from typing import Protocol


class EmbeddingMetrics(Protocol):
    """Each method is called on the event loop and returns at once."""

    def observe_embed(self, seconds: float) -> None:
        """One call to the embedder took so long, whatever came of it."""
        ...

    def cache_hit(self) -> None:
        """A text's vector was at hand, or already being made."""
        ...

    def cache_miss(self) -> None:
        """A text had to be embedded."""
        ...
