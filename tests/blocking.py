"""An async test fails when the project's code blocks the event loop: a file, a sleep, a lock, a socket.

Only calls with one of the project's packages on the stack count, so tests may read files as they please. A test that
blocks on purpose carries `@pytest.mark.allow_blocking` with the reason beside it.
"""

from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx

PACKAGES = ["knowledge_store", "knowledge_store_sdk", "knowledge_store_connectors"]


@pytest.fixture(autouse=True)
def nothing_blocks_the_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    # pytest-asyncio marks every coroutine test, the ones that hypothesis wraps included
    if request.node.get_closest_marker("asyncio") and not request.node.get_closest_marker("allow_blocking"):
        with blockbuster_ctx(scanned_modules=PACKAGES):
            yield
    else:
        yield
