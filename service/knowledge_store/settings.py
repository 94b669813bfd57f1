"""Every setting, its default and its help text: frozen, from the environment over a file.

    file (YAML) -> environment (KNOWLEDGE_HTTP__PORT) -> validated -> Settings

The sections named like a backend, and what stands beside `provider` under `embedder`, belong to the part of that name:
it validates them itself when it is opened, with the same errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.sources import EnvSettingsSource

from knowledge_store_sdk.models import SourceName

Role = Literal["reader", "writer", "admin"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HttpSettings(Section):
    host: str = Field(default="127.0.0.1", description="The address to listen on. Others than loopback need a key.")
    port: int = Field(default=8080, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    max_body_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1024 * 1024, description="A larger request body is refused with 413."
    )
    max_queries_in_flight: int = Field(
        default=64, ge=1, le=10_000, description="One more query at the same time is refused with 429."
    )
    open_query: bool = Field(default=True, description="Whether POST /knowledge/query answers without a key.")
    stop_timeout_s: float = Field(
        default=8.0, gt=0, le=600, description="How long a stop waits for requests under way."
    )


class KeySettings(Section):
    name: str = Field(min_length=1, max_length=128, description="Stands in the log in place of the key.")
    role: Role = Field(description="reader, writer (of its sources) or admin.")
    hash: str = Field(pattern=r"^sha256:[0-9a-f]{64}$", description="As `knowledge-store keys create` prints it.")
    sources: tuple[SourceName, ...] = Field(default=(), description="The sources that a writer may write.")


class EmbedderSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    provider: str = Field(default="bundled", description="The embedder's name: the name of its entry point.")
    query_timeout_s: float = Field(
        default=2.0, gt=0, le=60, description="How long a question waits for its vector before it goes on without."
    )
    write_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="How long a write waits for vectors; the rest is embedded later."
    )

    @property
    def options(self) -> dict[str, Any]:
        """What the embedder of this name validates itself."""
        return dict(self.model_extra or {})


class ScoreSettings(Section):
    keyword_weight: float = Field(default=0.4, ge=0, le=1, description="The rest of 1 is the vector leg's weight.")
    bm25_half: float = Field(default=90.0, gt=0, description="The BM25 value that counts as 0.5.")
    rrf_k: int = Field(default=60, ge=1, description="The constant of reciprocal rank fusion.")
    window: int = Field(default=100, ge=100, le=1000, description="How many hits each leg looks at.")


class CacheSettings(Section):
    ttl_s: float = Field(default=300.0, ge=0, description="How long an answer is kept; 0 keeps none.")
    max_bytes: int = Field(default=16 * 1024 * 1024, ge=0, description="All kept answers together.")


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least level shown.")
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="One JSON object a line, or for people; auto: for people on a terminal only."
    )


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="KNOWLEDGE_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    http: HttpSettings = Field(default_factory=HttpSettings, description="The service's address and limits.")
    backend: str = Field(default="embedded", description="Where documents are kept: the name of an entry point.")
    embedded: dict[str, Any] = Field(default_factory=dict, description="Settings of the backend `embedded`.")
    elasticsearch: dict[str, Any] = Field(default_factory=dict, description="Settings of the backend `elasticsearch`.")
    embedder: EmbedderSettings = Field(default_factory=EmbedderSettings, description="What turns text into vectors.")
    score: ScoreSettings = Field(default_factory=ScoreSettings, description="How hits are scored.")
    cache: CacheSettings = Field(default_factory=CacheSettings, description="The cache of answers.")
    keys: tuple[KeySettings, ...] = Field(default=(), description="Who may do what; none: loopback only, every role.")
    cleanup_interval_s: float = Field(
        default=3600.0, ge=1, description="How often expired documents are removed from the store."
    )
    log: LogSettings = Field(default_factory=LogSettings, description="The log.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    def backend_options(self) -> dict[str, Any]:
        """The section of the configured backend."""
        return dict(getattr(self, self.backend.replace("-", "_"), {}) or {})


class Environment(EnvSettingsSource):
    """The settings that an environment holds, given as a mapping so that nothing reads the process's own."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name.lower(): value for name, value in environ.items()}
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._environ


def known_keys(path: tuple[str, ...]) -> list[str]:
    """The keys that may stand below a path of the configuration; empty where the part of that name knows."""
    model: Any = Settings
    for step in path:
        field = getattr(model, "model_fields", {}).get(step)
        if field is None:
            return []
        model = field.annotation
    return sorted(getattr(model, "model_fields", {}))
