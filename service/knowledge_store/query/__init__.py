"""The query path: parse -> embed -> candidates -> fuse -> fetch -> cite."""
