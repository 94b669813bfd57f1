"""A vector as it travels between the seams."""

from __future__ import annotations

import array
import math
import sys
from collections.abc import Iterable
from typing import TypeAlias

Vector: TypeAlias = bytes
"""float32, little-endian, shape (dims,), of length 1 (L2), so that a dot product is the cosine.

`numpy.frombuffer(vector, dtype="<f4")` reads it without a copy.
"""


def pack(values: Iterable[float]) -> Vector:
    """The values as a vector of length 1. Raises ValueError for one without a direction: all zero, or not finite."""
    numbers = array.array("f", values)
    length = math.sqrt(sum(value * value for value in numbers))
    if not math.isfinite(length) or length == 0:
        raise ValueError("a vector must have a direction: all of its values are 0, or one is not finite")
    packed = array.array("f", (value / length for value in numbers))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(vector: Vector) -> array.array[float]:
    """The values, shape (dims,)."""
    values = array.array("f")
    values.frombytes(vector)
    if sys.byteorder == "big":
        values.byteswap()
    return values
