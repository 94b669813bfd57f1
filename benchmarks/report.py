"""What the benchmarks print: tables of figures, each beside its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

console = Console(width=150)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, and the least or the most that it may be; neither: it is told for information."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return f"at least {self.at_least:g}" if self.at_least is not None else ""

    @property
    def verdict(self) -> str:
        if self.at_most is None and self.at_least is None:
            return ""
        low = self.at_least is not None and self.value < self.at_least
        high = self.at_most is not None and self.value > self.at_most
        return "[red]missed" if low or high else "[green]met"


def figures(title: str, rows: Sequence[Figure]) -> None:
    """Prints one table."""
    table = Table(title=title, title_justify="left")
    for heading in ("measure", "figure", "target", "", "note"):
        table.add_column(heading, justify="right" if heading == "figure" else "left")
    for row in rows:
        shown = f"{row.value:,.4g}" if abs(row.value) < 100 else f"{row.value:,.0f}"
        table.add_row(row.name, f"{shown} {row.unit}".strip(), row.target, row.verdict, row.note)
    console.print(table)
