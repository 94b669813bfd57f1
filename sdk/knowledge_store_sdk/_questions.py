"""From the arguments of a fetch to the question that is sent: arguments -> payload's text -> checked -> limited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from knowledge_store_sdk._payload import Payload
from knowledge_store_sdk._wire import invalid_field
from knowledge_store_sdk.errors import InvalidRequest
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.models import Query
from knowledge_store_sdk.tags import parse_tags


def read_question(
    asked: Query | Mapping[str, Any], payload: Payload | None, limits: RetrievalLimits, path: str = ""
) -> Query | None:
    """The question; None where the payload is to ask and has no text, so that nothing is to be found.

    Raises InvalidRequest where there is no payload to ask with, InvalidField for wrong arguments, their names after
    `path`.
    """
    if isinstance(asked, Query):
        return limited(asked, limits)
    members = dict(asked)
    from_payload = members.get("text") is None
    if from_payload:
        if payload is None:
            raise InvalidRequest(
                "there is no text to ask with: give one, or an empty one to list by tags; only a client made by "
                "for_analysis or with_payload has a text of its own"
            )
        members["text"] = payload.text
    try:
        query = limited(Query(**members), limits)
    except ValidationError as error:
        raise invalid_field(error, path) from error
    return None if from_payload and not query.text else query


def limited(query: Query, limits: RetrievalLimits) -> Query:
    """The question within the limits. Raises InvalidTagExpression for tags that cannot be read.

    The floor is for scores: a listing has none, and keeps its own.
    """
    parse_tags(query.tags)
    min_score = limits.min_score(query.min_score) if query.text.strip() else query.min_score
    return query.model_copy(update={"top_k": limits.top_k(query.top_k), "min_score": min_score})
