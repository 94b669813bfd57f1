"""The service: it keeps what a company has written and answers which passages matter."""

from __future__ import annotations

__version__ = "0.1.0"
