"""HTTP: thin, without rules of its own. One resource a file; each lists its operations, which OpenAPI is made from."""
