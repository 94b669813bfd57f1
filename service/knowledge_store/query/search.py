"""One question on its way through candidates, fusion and fetch: what is known of it, without any I/O.

question() -> take_candidates() -> request() -> take_fetched() ... until complete() -> passages()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from knowledge_store.query.diversity import diversify
from knowledge_store.query.fusion import Hit, Scoring, contenders, fuse, ordered, settle
from knowledge_store_sdk.models import Query
from knowledge_store_sdk.protocols import Candidates, Fetched, FetchRequest, Filter, Question, Stored
from knowledge_store_sdk.vectors import Vector

_DIVERSE_POOL: Final = 4  # how many hits for each one wanted are looked at for what they add


@dataclass(slots=True)
class Search:
    """A parsed question and what has been found for it."""

    query: Query
    filter: Filter
    window: int
    vector: Vector | None = None
    exclude: frozenset[str] = frozenset()
    superseded: bool = False
    _hits: list[Hit] = field(default_factory=list)
    _found: dict[str, Stored] = field(default_factory=dict)
    _vectors: dict[str, Vector] = field(default_factory=dict)

    @property
    def diverse(self) -> bool:
        return self.query.strategy == "diverse"

    def question(self) -> Question:
        """What the backend is asked; the legs that the mode wants."""
        text = None if self.query.mode == "vector" else self.query.text
        return Question(text, self.vector, self.filter, max(self.window, 2 * self.query.top_k), self.exclude)

    def take_candidates(self, candidates: Candidates, scoring: Scoring) -> None:
        hits = fuse(candidates, self.query.mode, scoring, self.query.fusion)
        self._hits = [hit for hit in hits if hit.score >= self.query.min_score]
        self._found, self._vectors, self.superseded = {}, {}, False

    def request(self, scoring: Scoring) -> FetchRequest:
        """The hits that may be among the answer and have not been read."""
        wanted = contenders(self._hits, self._wanted(), scoring, self.query.fusion)
        new = [hit for hit in wanted if hit.key not in self._found]
        exact = [hit.key for hit in new if not hit.settled]
        return FetchRequest([hit.key for hit in new], exact, self.vector if exact else None, self.diverse)

    def take_fetched(self, request: FetchRequest, fetched: Fetched, scoring: Scoring) -> None:
        """Settles what was read, and drops what has gone, passes the filter no longer, or falls below the floor."""
        self._found |= fetched.found
        self._vectors |= fetched.vectors
        if fetched.superseded:
            self.superseded, self.exclude = True, self.exclude | fetched.superseded
        asked = set(request.keys)
        settle([hit for hit in self._hits if hit.key in asked], fetched.cosines, scoring)
        live = [hit for hit in self._hits if hit.key not in asked or self._still_passes(hit.key)]
        self._hits = ordered([hit for hit in live if hit.score >= self.query.min_score], self.query.fusion)

    def complete(self) -> bool:
        """Whether everything that belongs to the answer has been read."""
        return all(hit.key in self._found for hit in self._hits[: self._wanted()])

    def passages(self, scoring: Scoring) -> list[tuple[Hit, Stored]]:
        """The answer, best first; of one id only the best."""
        best: dict[str, Hit] = {}
        for hit in self._hits[: self._wanted()]:
            if hit.key in self._found:
                best.setdefault(self._found[hit.key].document.id, hit)
        hits = list(best.values())
        if self.diverse:
            hits = diversify(hits, self._vectors, self.query.top_k, scoring)
        return [(hit, self._found[hit.key]) for hit in hits[: self.query.top_k]]

    def _wanted(self) -> int:
        return max(20, _DIVERSE_POOL * self.query.top_k) if self.diverse else self.query.top_k

    def _still_passes(self, key: str) -> bool:
        # A fetch reads documents as they are now: one that was written since its candidate was found may have other
        # tags, another project, another expiry.
        stored = self._found.get(key)
        return stored is not None and self.filter.admits(stored.document)
