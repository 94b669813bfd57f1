"""The settings of the backend `elasticsearch`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, StringConstraints, model_validator


def _listed(value: Any) -> Any:
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/,]+(/[^\s,]*)?$")]


class ElasticsearchConfig(BaseModel):
    """Where the cluster is, how to be let in, and what the indices are like."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: Annotated[tuple[Url, ...], BeforeValidator(_listed)] = Field(
        default=("http://localhost:9200",),
        min_length=1,
        description="The address of a node, or of several, as a list or separated by commas.",
    )
    api_key: SecretStr | None = Field(default=None, description="An API key, encoded as Elasticsearch prints it.")
    username: str | None = Field(default=None, description="With `password`, in place of an API key.")
    password: SecretStr | None = Field(default=None, description="The password of `username`.")
    ca_certs: str | None = Field(
        default=None, description="The file with the certificates that the cluster's own certificate is checked by."
    )
    index_prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")] = Field(
        default="knowledge",
        description="All indices and templates begin with it, so that several stores may share a cluster.",
    )
    shards: int = Field(default=1, ge=1, le=1024, description="How many shards a new index of documents has.")
    replicas: int | None = Field(
        default=None,
        ge=0,
        le=10,
        description="How many copies each shard has; by default one where there is a second node.",
    )
    analyzer: str = Field(
        default="english", description="The built-in analyzer that the texts of a new index go through."
    )
    request_timeout_s: float = Field(
        default=10.0, gt=0, le=600, description="How long a read may take; a write may take twelve times as long."
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> ElasticsearchConfig:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together: give both or neither")
        if self.api_key is not None and self.username is not None:
            raise ValueError("give an api_key, or username and password, not both")
        return self
