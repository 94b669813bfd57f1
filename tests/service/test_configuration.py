"""Every error of the configuration names the key, the place and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from knowledge_store.configuration import read_configuration
from knowledge_store.settings import Settings
from knowledge_store_sdk.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    file = folder / "knowledge.yaml"
    file.write_text(text)
    return file


def refused(folder: Path, text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_configuration(write(folder, text), environ or {})
    return caught.value.detail


def test_the_environment_lies_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "http: {port: 9000, host: 127.0.0.2}\nelasticsearch: {url: 'http://a:1'}\n")
    environ = {"KNOWLEDGE_HTTP__PORT": "9001", "KNOWLEDGE_ELASTICSEARCH__URL": "http://b:2"}
    settings = read_configuration(file, environ).settings
    assert (settings.http.host, settings.http.port) == ("127.0.0.2", 9001)
    assert settings.elasticsearch == {"url": "http://b:2"}


def test_the_file_is_found_by_its_variable_and_an_absent_one_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, "backend: none\n")
    assert read_configuration(None, {"KNOWLEDGE_CONFIG": str(file)}).settings.backend == "none"
    with pytest.raises(ConfigError, match="no such configuration file"):
        read_configuration(tmp_path / "absent.yaml", {})


def test_an_unknown_key_is_named_with_its_line_and_the_known_ones(tmp_path: Path) -> None:
    told = refused(tmp_path, "backend: embedded\nhttp:\n  prot: 80\n")
    assert "knowledge.yaml:3: http.prot: unknown key" in told
    assert "host" in told
    assert "port" in told
    assert "knowledge.yaml:1: bakcend: unknown key" in refused(tmp_path, "bakcend: embedded\n")


def test_a_wrong_value_is_named_with_its_line(tmp_path: Path) -> None:
    assert "knowledge.yaml:2: http.port:" in refused(tmp_path, "http:\n  port: many\n")


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    told = refused(tmp_path, "backend: embedded\n", {"KNOWLEDGE_HTTP__PORT": "many"})
    assert "environment KNOWLEDGE_HTTP__PORT: http.port:" in told


def test_what_others_put_into_the_environment_is_passed_over() -> None:
    environ = {
        "KNOWLEDGE_URL": "http://x",
        "KNOWLEDGE_API_KEY": "k",
        "KNOWLEDGE_TEST_DATA": "/x",
        "KNOWLEDGE_PORT": "tcp://10.0.0.1:8080",
        "KNOWLEDGE_PORT_8080_TCP_ADDR": "10.0.0.1",
        "KNOWLEDGE_SERVICE_HOST": "10.0.0.1",
    }
    assert read_configuration(None, environ).settings == Settings()


@pytest.mark.parametrize(
    ("text", "told"), [("- a\n", "`key: value` pairs"), ("a: [\n", "not readable as YAML"), ("a: b: c\n", ":1:")]
)
def test_a_file_that_is_no_mapping_is_named(tmp_path: Path, text: str, told: str) -> None:
    assert told in refused(tmp_path, text)


def test_a_wrong_hash_is_not_repeated(tmp_path: Path) -> None:
    told = refused(tmp_path, "keys:\n  - {name: a, role: admin, hash: ks_secret}\n")
    assert "keys.0.hash" in told
    assert "ks_secret" not in told


def test_every_setting_has_its_help_text() -> None:
    def undescribed(model: type[BaseModel], path: str) -> list[str]:
        missing = []
        for name, field in model.model_fields.items():
            if not field.description:
                missing.append(path + name)
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                missing += undescribed(field.annotation, f"{path}{name}.")
        return missing

    assert undescribed(Settings, "") == []
