"""The ingest path: list -> diff -> read -> extract -> chunk -> embed -> write -> commit -> sweep."""
