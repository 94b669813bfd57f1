"""Keys and roles fail closed."""

from __future__ import annotations

import pytest

from knowledge_store.api.auth import ANYONE, Authenticator, key_hash, new_key, require
from knowledge_store.settings import KeySettings
from knowledge_store_sdk.errors import ConfigError, PermissionDenied, Unauthenticated

KEY = new_key()
WRITER = KeySettings(name="wiki", role="writer", hash=key_hash(KEY), sources=("wiki",))


def test_without_a_key_only_a_loopback_address_is_served() -> None:
    for host in ("0.0.0.0", "192.168.1.4", "::", "knowledge.example.test"):
        with pytest.raises(ConfigError, match="keys create"):
            Authenticator((), host)
    for host in ("127.0.0.1", "localhost", "::1"):
        Authenticator((), host)


def test_without_a_key_a_strange_host_header_is_refused() -> None:
    alone = Authenticator((), "127.0.0.1")
    assert alone.caller({"Host": "127.0.0.1:8080"}).role == "admin"
    assert alone.caller({"Host": "[::1]:8080"}).role == "admin"
    with pytest.raises(Unauthenticated):
        alone.caller({"Host": "attacker.example.test:8080"})


def test_a_key_is_read_from_either_header() -> None:
    known = Authenticator((WRITER,), "0.0.0.0")
    assert known.caller({"X-API-Key": KEY}).name == "wiki"
    assert known.caller({"Authorization": f"bearer {KEY}"}).name == "wiki"


def test_an_unknown_key_is_refused_everywhere_and_none_is_anyone() -> None:
    known = Authenticator((WRITER,), "0.0.0.0")
    with pytest.raises(Unauthenticated):
        known.caller({"X-API-Key": KEY + "x"})
    assert known.caller({}) is ANYONE


def test_a_role_includes_the_lesser_ones_only() -> None:
    writer = Authenticator((WRITER,), "0.0.0.0").caller({"X-API-Key": KEY})
    require(writer, "reader")
    require(writer, "writer")
    with pytest.raises(PermissionDenied):
        require(writer, "admin")
    with pytest.raises(Unauthenticated):
        require(ANYONE, "reader")


def test_a_writer_writes_its_sources_only() -> None:
    writer = Authenticator((WRITER,), "0.0.0.0").caller({"X-API-Key": KEY})
    assert writer.source_for(None) == "wiki"
    assert writer.source_for("wiki") == "wiki"
    with pytest.raises(PermissionDenied, match="hr"):
        writer.source_for("hr")
