"""Who is calling: keys stand as hashes in the configuration and are compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping, Sequence

from knowledge_store.ingest.caller import LOCAL, Caller
from knowledge_store.settings import KeySettings
from knowledge_store_sdk.errors import ConfigError, PermissionDenied, Unauthenticated

_RANK = {"open": 0, "reader": 1, "writer": 2, "admin": 3}
ANYONE = Caller("anyone", "open", frozenset())


def new_key() -> str:
    """A key of 256 random bits."""
    return f"ks_{secrets.token_urlsafe(32)}"


def key_hash(key: str) -> str:
    """What the configuration holds. A key has 256 random bits, so one round of SHA-256 is as good as many."""
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def is_loopback(host: str) -> bool:
    """Whether an address, or a name, reaches this machine only."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Authenticator:
    """Knows the keys. Without any, everyone on this machine is an admin, and nobody else gets in."""

    def __init__(self, keys: Sequence[KeySettings], host: str) -> None:
        if not keys and not is_loopback(host):
            raise ConfigError(
                f"http.host: {host} is reachable from other machines, and no key is configured; add one with "
                "`knowledge-store keys create --role admin`, or listen on 127.0.0.1"
            )
        self._keys = [(key.hash, _caller(key)) for key in keys]

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Raises Unauthenticated for a key that is not known, and for a strange Host where no key is configured."""
        key = headers.get("X-API-Key") or _bearer(headers.get("Authorization", ""))
        if not self._keys:
            _check_host(headers.get("Host", ""))
            return LOCAL
        if not key:
            return ANYONE
        given, found = key_hash(key), None
        for known, caller in self._keys:
            if hmac.compare_digest(known, given):
                found = caller
        if found is None:
            raise Unauthenticated("this key is not known here; `knowledge-store keys create` makes one")
        return found


def require(caller: Caller, role: str) -> None:
    """Raises Unauthenticated where a key would help, PermissionDenied where another one would."""
    if _RANK[caller.role] >= _RANK[role]:
        return
    if caller is ANYONE:
        raise Unauthenticated(f"a key with the role {role} is needed, as X-API-Key or Authorization: Bearer")
    raise PermissionDenied(f"the key {caller.name!r} is a {caller.role}; this needs a {role}")


def _caller(key: KeySettings) -> Caller:
    return Caller(key.name, key.role, None if key.role == "admin" else frozenset(key.sources))


def _bearer(value: str) -> str | None:
    scheme, _, key = value.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _check_host(host: str) -> None:
    # A page in a browser may resolve its own name to 127.0.0.1 and would then be an admin here.
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if not is_loopback(name):
        raise Unauthenticated(f"without a key this service answers to a loopback address only, not to {host!r}")
