"""Every error that the store raises, named by what its catcher must do about it.

    KnowledgeStoreError            has a stable `code`, an HTTP `status`, a sentence, and the ids that it is about
    ├── InvalidRequest        400  cannot be read at all: mend the request
    │   ├── InvalidTagExpression   the tag expression; `position` says where
    │   └── MethodNotAllowed  405
    ├── Unauthenticated       401  no key, or an unknown one
    ├── PermissionDenied      403  the key is known and may not do this
    ├── NotFound              404
    ├── Conflict              409  something is in the way; `ids` says what
    ├── TooLarge              413  send it in smaller parts
    ├── UnsupportedMediaType  415
    ├── InvalidField          422  a field is wrong; `fields` names each with its reason
    ├── Retryable                  call again, after `retry_after_s`
    │   ├── RateLimited       429
    │   └── BackendUnavailable 503 the backend, or the embedder that the question cannot do without
    ├── InternalError         500  a defect of the service; its log has the request id
    ├── SkippableItem              one document; the sync goes on without it
    ├── FatalSync                  the run stops and keeps its cursor
    └── ConfigError                at start only: mend the configuration
        ├── IdentityMismatch       the index was built with another embedder
        ├── WrongVersion           the backend, or what it holds, is of a version that this one cannot use
        ├── WrongCredentials       the backend or the embedder refuses the key or the password
        ├── ModelMissing           the embedder does not have the model
        ├── PathNotUsable          a file or folder cannot be written, or belongs to another process
        └── PortTaken              something else listens on the service's address

The service turns these into RFC 9457 problem documents and `error_from_problem` turns those back, by code, so that a
caller of the SDK catches the class that the service raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final


class KnowledgeStoreError(Exception):
    """The root of all errors of the store.

    `code` is stable and for programs; `detail` is one sentence for people; `ids` are the documents it is about.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"

    def __init__(self, detail: str, *, ids: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.ids = tuple(ids)

    def extension(self) -> dict[str, Any]:
        """The members that a problem document carries beside the standard ones."""
        return {"ids": list(self.ids)} if self.ids else {}


class InvalidRequest(KnowledgeStoreError):
    code, status, title = "invalid_request", 400, "The request cannot be read"


class InvalidTagExpression(InvalidRequest):
    """`position` counts characters from 0; it equals the length of the text where something is missing at its end."""

    code, title = "invalid_tag_expression", "The tag expression cannot be read"

    def __init__(self, detail: str, *, position: int = 0, ids: Sequence[str] = ()) -> None:
        super().__init__(detail, ids=ids)
        self.position = position

    def extension(self) -> dict[str, Any]:
        return {"position": self.position}


class MethodNotAllowed(InvalidRequest):
    code, status, title = "method_not_allowed", 405, "The route has other methods"


class Unauthenticated(KnowledgeStoreError):
    code, status, title = "unauthenticated", 401, "A key is needed"


class PermissionDenied(KnowledgeStoreError):
    code, status, title = "permission_denied", 403, "This key may not do that"


class NotFound(KnowledgeStoreError):
    code, status, title = "not_found", 404, "There is no such thing"


class Conflict(KnowledgeStoreError):
    code, status, title = "conflict", 409, "Something is in the way"


class TooLarge(KnowledgeStoreError):
    code, status, title = "too_large", 413, "The request is too large"


class UnsupportedMediaType(KnowledgeStoreError):
    code, status, title = "unsupported_media_type", 415, "The body has another media type than JSON"


class InvalidField(KnowledgeStoreError):
    """`fields` maps the path of each wrong field (`documents[2].tags[0]`) to one sentence."""

    code, status, title = "invalid_field", 422, "A field is wrong"

    def __init__(self, detail: str, *, fields: Mapping[str, str] | None = None, ids: Sequence[str] = ()) -> None:
        super().__init__(detail, ids=ids)
        self.fields = dict(fields or {})

    def extension(self) -> dict[str, Any]:
        return {"fields": [{"field": name, "detail": detail} for name, detail in self.fields.items()]}


class Retryable(KnowledgeStoreError):
    """The same call may succeed later; `retry_after_s` says when to try, where that is known."""

    code, status, title = "retryable", 503, "Not now"

    def __init__(self, detail: str, *, retry_after_s: float | None = None, ids: Sequence[str] = ()) -> None:
        super().__init__(detail, ids=ids)
        self.retry_after_s = retry_after_s


class RateLimited(Retryable):
    code, status, title = "rate_limited", 429, "Too many requests at once"


class BackendUnavailable(Retryable):
    code, status, title = "backend_unavailable", 503, "The store cannot answer at the moment"


class InternalError(KnowledgeStoreError):
    code, status, title = "internal_error", 500, "A defect of the service"


class SkippableItem(KnowledgeStoreError):
    code, status, title = "skippable_item", 422, "This document was skipped"


class FatalSync(KnowledgeStoreError):
    code, status, title = "fatal_sync", 500, "The run was stopped"


class ConfigError(KnowledgeStoreError):
    code, status, title = "config_error", 500, "The configuration is wrong"


class IdentityMismatch(ConfigError):
    code, title = "identity_mismatch", "The index was built with another embedder"


_ABSTRACT: Final = (KnowledgeStoreError, Retryable)  # share their status with a class that says more


class WrongVersion(ConfigError):
    code, title = "wrong_version", "The version does not fit"


class WrongCredentials(ConfigError):
    code, title = "wrong_credentials", "The credentials are refused"


class ModelMissing(ConfigError):
    code, title = "model_missing", "The embedder does not have the model"


class PathNotUsable(ConfigError):
    code, title = "path_not_usable", "The path cannot be used"


class PortTaken(ConfigError):
    code, title = "port_taken", "The address is in use"


def error_classes(root: type[KnowledgeStoreError] = KnowledgeStoreError) -> Iterator[type[KnowledgeStoreError]]:
    """The root and everything below it."""
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)


def error_from_problem(
    status: int, problem: Mapping[str, Any], *, retry_after_s: float | None = None
) -> KnowledgeStoreError:
    """The error that a problem document stands for, by its `code`; by its status where the code is unknown."""
    detail = str(problem.get("detail") or problem.get("title") or f"the service answered {status}")
    ids = [str(one) for one in problem.get("ids") or ()]
    by_code = {one.code: one for one in error_classes()}
    by_status = {one.status: one for one in reversed(list(error_classes())) if one not in _ABSTRACT}
    kind = by_code.get(str(problem.get("code"))) or by_status.get(status)
    if kind is None:
        kind = InternalError if status >= 500 else InvalidRequest
    if issubclass(kind, Retryable):
        return kind(detail, retry_after_s=retry_after_s, ids=ids)
    if issubclass(kind, InvalidField):
        named = {str(one.get("field")): str(one.get("detail")) for one in problem.get("fields") or ()}
        return kind(detail, fields=named, ids=ids)
    if issubclass(kind, InvalidTagExpression):
        return kind(detail, position=int(problem.get("position") or 0))
    return kind(detail, ids=ids)
