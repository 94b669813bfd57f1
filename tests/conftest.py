"""Registers the fixtures that several folders of tests use; each stands in the module named here."""

pytest_plugins = [
    "tests.requirement",
    "tests.servers.elasticsearch",
    "tests.service.serving",
    "tests.shared_data",
    "tests.blocking",
]
