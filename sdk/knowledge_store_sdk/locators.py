"""Where in its source a passage stands: one class per kind of source, told apart by `type`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Locator(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Box(_Locator):
    """A rectangle in points (1/72 inch), its origin at the top left corner of the page as it is shown."""

    x0: float
    top: float
    x1: float
    bottom: float


class PdfLocator(_Locator):
    type: Literal["pdf"] = "pdf"
    page: int = Field(ge=1, description="The page, counted from 1.")
    boxes: tuple[Box, ...] = Field(default=(), max_length=256)


class CodeLocator(_Locator):
    type: Literal["code"] = "code"
    path: str = Field(max_length=4096)
    start_line: int = Field(ge=1, description="The first line, counted from 1.")
    end_line: int = Field(ge=1, description="The last line, included.")
    symbol: str | None = Field(default=None, max_length=1024, description="`Cart.Line.total`.")

    @model_validator(mode="after")
    def _forward(self) -> CodeLocator:
        if self.end_line < self.start_line:
            raise ValueError("end_line comes before start_line")
        return self


class _Offsets(_Locator):
    start: int = Field(ge=0, description="The first character, counted from 0.")
    end: int = Field(ge=0, description="The character after the last.")

    @model_validator(mode="after")
    def _forward(self) -> _Offsets:
        if self.end < self.start:
            raise ValueError("end comes before start")
        return self


class WebLocator(_Offsets):
    type: Literal["web"] = "web"
    url: str = Field(max_length=8192)


class TicketLocator(_Locator):
    type: Literal["ticket"] = "ticket"
    id: str = Field(max_length=1024)
    comment: str | None = Field(default=None, max_length=1024)


class TextLocator(_Offsets):
    """Characters (Unicode code points) of the decoded text, and the headings above them."""

    type: Literal["text"] = "text"
    heading_path: tuple[str, ...] = Field(default=(), max_length=64)


Locator = Annotated[PdfLocator | CodeLocator | WebLocator | TicketLocator | TextLocator, Field(discriminator="type")]
