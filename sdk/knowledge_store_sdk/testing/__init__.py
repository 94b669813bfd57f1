"""For tests: a client that needs no service, and the conformance suites, a class each to subclass.

    FakeKnowledgeClient                                     in memory, with the real client's surface and errors
    knowledge_store_sdk.testing.client_suite.KnowledgeClientSuite
    knowledge_store_sdk.testing.index_suite                 for backends
    knowledge_store_sdk.testing.embedder_suite              for embedders

The suites need the extra `testing`, and are imported from their modules; importing this one does not need it.
"""

from knowledge_store_sdk.testing.fake_client import FakeKnowledgeClient

__all__ = ["FakeKnowledgeClient"]
