"""The sources that the project brings: each module holds one source and its configuration."""
