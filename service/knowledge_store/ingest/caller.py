"""Who writes, and what of."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge_store_sdk.errors import PermissionDenied

DEFAULT_SOURCE = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """A key's name and role. `sources` None: all of them."""

    name: str
    role: str
    sources: frozenset[str] | None = None

    def source_for(self, given: str | None) -> str:
        """The source that a document is written under. Raises PermissionDenied where the key does not own it."""
        if given is None:
            given = next(iter(self.sources)) if self.sources and len(self.sources) == 1 else DEFAULT_SOURCE
        self.check(given)
        return given

    def check(self, source: str) -> None:
        """Raises PermissionDenied where the key does not own this source."""
        if self.sources is not None and source not in self.sources:
            owned = ", ".join(sorted(self.sources)) or "none"
            raise PermissionDenied(f"the key {self.name!r} may not write the source {source!r}; its sources: {owned}")


LOCAL = Caller("local", "admin")
