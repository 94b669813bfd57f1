"""Registers the fixtures that several folders of tests use; each stands in the module named here."""

import pytest

# before they are imported: the suites that ship with the SDK report as well as tests do
pytest.register_assert_rewrite("knowledge_store_sdk.testing")

pytest_plugins = [
    "tests.requirement",
    "tests.servers.elasticsearch",
    "tests.service.serving",
    "tests.shared_data",
    "tests.blocking",
]
