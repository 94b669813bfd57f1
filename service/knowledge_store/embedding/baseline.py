"""`mu`: the cosine that two unrelated texts get from an embedder, which the score counts as no similarity at all.

    40 sentences on unrelated matters -> as questions and as passages -> the median over all pairs of two different ones

The sentences are part of what `mu` means: a value that is kept was measured with these, so they stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from knowledge_store_sdk.vectors import Vector

SENTENCES: Final = (
    "The tide reaches the harbour wall twice a day.",
    "Her grandmother taught her to knit wool socks.",
    "Interest on the savings account is paid in December.",
    "The goalkeeper saved a penalty in extra time.",
    "Knead the dough until it no longer sticks to the bowl.",
    "Jupiter has more than ninety known moons.",
    "The lease ends three months after notice is given.",
    "A violin has four strings tuned in fifths.",
    "The compiler rejects a variable that is never assigned.",
    "Bees return to the hive before it rains.",
    "The museum shows Roman coins on the second floor.",
    "Brush your teeth twice a day with fluoride.",
    "The train to the airport leaves from platform nine.",
    "Parliament passed the fisheries bill by six votes.",
    "The load balancer drops connections after sixty seconds.",
    "Tulips are planted in autumn, before the first frost.",
    "He repaired the bicycle chain with a small pair of pliers.",
    "Photosynthesis turns carbon dioxide and water into sugar.",
    "The choir rehearses on Tuesdays in the old chapel.",
    "New employees receive their laptop on the first morning.",
    "The vaccine must be kept between two and eight degrees.",
    "Camels store fat, not water, in their humps.",
    "The invoice was sent to the wrong department.",
    "Basalt forms when lava cools quickly.",
    "The chess champion opened with the queen's pawn.",
    "Passwords are stored as salted hashes.",
    "The carpenter sanded the oak table by hand.",
    "Monsoon winds change their direction with the seasons.",
    "The novel is told by an unreliable butler.",
    "Two glasses of water a day are not enough for a runner.",
    "The pilot asked for permission to descend.",
    "Ancient Egyptians wrote on papyrus with reed pens.",
    "The elevator is inspected once a year.",
    "Penguins huddle together to keep warm.",
    "The recipe needs a pinch of saffron and some rice.",
    "A right triangle obeys the theorem of Pythagoras.",
    "The theatre offers cheap tickets to students.",
    "Ferries to the island are cancelled in strong wind.",
    "The dentist moved the appointment to Friday.",
    "Copper conducts electricity better than iron.",
)


def median_cosine(queries: Sequence[Vector], passages: Sequence[Vector]) -> float:
    """The median cosine of query i with passage j over all i != j, -1 to 1."""
    cosines = _matrix(queries) @ _matrix(passages).T
    return float(np.median(cosines[~np.eye(len(queries), len(passages), dtype=bool)]))


def _matrix(vectors: Sequence[Vector]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """float32, shape (vectors, dims), rows of length 1."""
    return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
