"""`python -m knowledge_store` is `knowledge-store`."""

from knowledge_store.cli import main

main()
