"""How fast and how well the service works, beside what it is measured against: `python -m benchmarks`."""
