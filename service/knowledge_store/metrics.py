"""What Prometheus reads at /metrics. One registry an application, so that two in one process do not mix."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_QUERY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """The metrics of the service, by the names that dashboards and alerts use."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.query_duration = Histogram(
            "knowledge_query_duration_seconds",
            "Time from a parsed question to its answer.",
            ("cache_hit", "has_tag_filter"),
            buckets=_QUERY_BUCKETS,
            registry=self.registry,
        )
        self.embed_duration = Histogram(
            "knowledge_embed_duration_seconds",
            "Time of one call to the embedder.",
            ("backend",),
            buckets=_QUERY_BUCKETS,
            registry=self.registry,
        )
        self.embed_cache_hits = Counter(
            "knowledge_embed_cache_hits", "Texts whose vector was at hand.", registry=self.registry
        )
        self.embed_cache_misses = Counter(
            "knowledge_embed_cache_misses", "Texts that the embedder was asked for.", registry=self.registry
        )
        self.upserts = Counter("knowledge_upserts", "Documents stored.", ("source",), registry=self.registry)
        self.docs = Gauge("knowledge_docs_total", "Documents in the store.", registry=self.registry)
        self.pending = Gauge(
            "knowledge_vectors_pending", "Documents that wait for their vector.", registry=self.registry
        )
        self.cleanup_deleted = Counter(
            "knowledge_cleanup_deleted", "Expired documents removed from the store.", registry=self.registry
        )
        self.queries_shed = Counter(
            "knowledge_queries_shed", "Queries refused because too many were under way.", registry=self.registry
        )

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)


class EmbeddingReport:
    """What embedding reports, under the name of its embedder."""

    def __init__(self, metrics: Metrics, provider: str) -> None:
        self._duration = metrics.embed_duration.labels(backend=provider)
        self._hits, self._misses = metrics.embed_cache_hits, metrics.embed_cache_misses

    def observe_embed(self, seconds: float) -> None:
        self._duration.observe(seconds)

    def cache_hit(self) -> None:
        self._hits.inc()

    def cache_miss(self) -> None:
        self._misses.inc()
