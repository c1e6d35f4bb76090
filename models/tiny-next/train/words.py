"""Word lists of the grammar and the two ways it chooses among them.

`rule` is the grammar's knowledge: which of the options belongs to a key is fixed for ever, so a model can
learn it. `skewed` is its uncertainty: the first option four times in five, so that sampling has something to
sample and greedy decoding a clear favourite.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


def words(text: str) -> list[str]:
    """The words of `text`: a list that reads as one."""
    return text.split()


NAMES = words(
    "Ada Anton Bela Bruno Carla Cyril Dana Dorian Edith Elias Farah Felix Greta Gustav Hanna Hugo Ines Ivan Jana "
    "Jonas Karin Kolja Lena Luis Mara Marek Nadia Nils Olga Otto Petra Paolo Rina Ruben Selma Simon Tara Tobias "
    "Ulla Urban Vera Viktor Wanda Wim Xenia Yasmin Yuri Zora"
)

THINGS = words(
    "apples pears plums lemons olives carrots radishes onions shells stones marbles beads stamps coins postcards "
    "tickets candles buttons ribbons pencils brushes notebooks maps books keys bells kites lanterns spoons cups "
    "plates bowls baskets bottles jars tiles bricks planks nails screws seeds bulbs tulips roses ferns cards"
)

CITIES = words(
    "Aarhus Bergen Bilbao Bremen Cadiz Como Delft Dijon Evora Faro Gdansk Ghent Graz Kotor Leeds Lucca Lyon Mainz "
    "Malaga Narva Nice Olomouc Oslo Porto"
)

DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")


def rule(slot: str, key: str, options: Sequence[str]) -> str:
    """The option that the grammar ties to `key` in `slot`; the same in every run and for every seed."""
    return options[zlib.crc32(f"{slot}/{key}".encode()) % len(options)]


def skewed(rng: random.Random, usual: str, other: str, *, share: float = 0.8) -> str:
    """`usual` with probability `share`, else `other`."""
    return usual if rng.random() < share else other
