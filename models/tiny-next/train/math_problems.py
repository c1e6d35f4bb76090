"""Arithmetic word problems with worked answers: two steps, numbers up to 200, wording tied to the story.

Each builder returns the question, the short answer ("56 apples", number and noun) and the worked reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .words import CITIES, NAMES, THINGS, rule, skewed, words

if TYPE_CHECKING:
    import random

OPENERS = (
    "Let us count the {t}.",
    "Step by step:",
    "First look at the {t}.",
    "Good question about {t}.",
    "We need two steps.",
    "Start from what is known.",
    "Write it down in order.",
    "Think of the {t} only.",
    "This takes two sums.",
    "Keep an eye on the {t}.",
    "Work from left to right.",
    "The {t} change twice.",
)
GAINS = {
    "buys": "Buying {b} more",
    "finds": "With {b} found on the way",
    "gets": "Another {b} arrive, and it",
    "makes": "Making {b} by hand",
    "wins": "A prize of {b}",
    "picks": "Having picked {b}",
    "borrows": "The {b} borrowed ones count too: it",
    "collects": "Collecting {b} in a bag",
}
LOSSES = {
    "gives": "Giving {c} to {m}",
    "sells": "A sale of {c} to {m}",
    "lends": "Once {m} borrows {c}, it",
    "sends": "The parcel of {c} for {m}",
    "loses": "Losing {c} to {m}",
    "mails": "After {m} receives {c}, it",
}
BEGINS = ("begins with", "starts from", "opens with", "already has", "counts", "brings")
GIVES = ("makes", "gives", "brings", "means", "turns it into", "leads to", "yields", "comes to")
LEAVES = ("leaves", "makes", "results in", "takes it down to", "keeps", "means", "lowers it to", "gives")
CLOSERS = (
    "So {n} has {r} {t}.",
    "{n} now owns {r} {t}.",
    "The answer is {r} {t}.",
    "That is {r} {t} for {n}.",
    "In the end {r} {t} remain.",
    "We find {r} {t}.",
    "Answer: {r} {t}.",
    "It comes out at {r} {t}.",
)


def _opener(thing: str) -> str:
    return rule("opener", thing, OPENERS).format(t=thing)


def _closer(rng: random.Random, key: str, name: str, result: int, thing: str) -> str:
    line = rule("closer", key, CLOSERS).format(n=name, r=result, t=thing)
    return skewed(rng, line, f"Total: {result} {thing}.")


def stock(rng: random.Random) -> tuple[str, str, str]:
    """A stock that grows and then shrinks: a + b - c."""
    name, friend = rng.sample(NAMES, 2)
    thing, city = rng.choice(THINGS), rng.choice(CITIES)
    gain, loss = rng.choice(sorted(GAINS)), rng.choice(sorted(LOSSES))
    a, b = rng.randint(11, 89), rng.randint(11, 89)
    c = rng.randint(2, min(60, a + b - 1))
    question = (
        f"{name} from {city} has {a} {thing}, {gain} {b} and then {loss} {c} to {friend}. "
        f"How many {thing} does {name} have?"
    )
    reply = (
        f"{_opener(thing)} {name} {rule('begin', city + gain, BEGINS)} {a}. {GAINS[gain].format(b=b)} "
        f"{rule('gives', name, GIVES)} {a} + {b} = {a + b}. {LOSSES[loss].format(c=c, m=friend)} "
        f"{rule('leaves', friend, LEAVES)} {a + b} - {c} = {a + b - c}. "
        f"{_closer(rng, loss, name, a + b - c, thing)}"
    )
    return question, f"{a + b - c} {thing}", reply


BOXES = words("boxes bags crates shelves rows trays sacks drawers")
EXTRA = {
    "on the floor": "The {k} on the floor are added",
    "in the car": "From the car come {k}",
    "by the door": "By the door wait {k}",
    "in a drawer": "A drawer holds {k}",
    "on the table": "{k} lie on the table",
    "under the bench": "Look under the bench for {k}",
    "in the attic": "The attic hides {k}",
    "next door": "Next door there are {k}",
}
EACH = ("is the packed part", "are packed", "sit inside", "come first", "are safe inside", "is what they hold")


def packed(rng: random.Random) -> tuple[str, str, str]:
    """Equal groups and some loose ones: n * m + k."""
    name, thing, city = rng.choice(NAMES), rng.choice(THINGS), rng.choice(CITIES)
    box, place = rng.choice(BOXES), rng.choice(sorted(EXTRA))
    n, m, k = rng.randint(2, 9), rng.randint(2, 9), rng.randint(11, 89)
    question = (
        f"In {city}, {name} fills {n} {box} with {m} {thing} each. Another {k} {thing} are {place}. "
        f"How many {thing} are there?"
    )
    reply = (
        f"{_opener(thing)} The {box} hold {n} * {m} = {n * m}, which {rule('each', name, EACH)}. "
        f"{EXTRA[place].format(k=k)}: {rule('sum', box + city, GIVES)} {n * m} + {k} = {n * m + k}. "
        f"{_closer(rng, place, name, n * m + k, thing)}"
    )
    return question, f"{n * m + k} {thing}", reply


PURSES = {
    "a note of 100": 100,
    "a voucher of 90": 90,
    "a cheque of 120": 120,
    "a coin of 85": 85,
    "a card with 150": 150,
}
PAYING = ("Paid with", "Taken from", "Out of", "Compared with", "Set against", "Removed from")
COSTS = ("cost", "are worth", "come to", "together need", "add up to", "take")


def change(rng: random.Random) -> tuple[str, str, str]:
    """A price for several and the change: note - q * p."""
    name, thing, city = rng.choice(NAMES), rng.choice(THINGS), rng.choice(CITIES)
    purse = rng.choice(sorted(PURSES))
    q, p = rng.randint(2, 9), rng.randint(2, 9)
    left = PURSES[purse] - q * p
    question = f"{name} buys {q} {thing} at {p} crowns each in {city} and pays with {purse}. How many crowns come back?"
    reply = (
        f"{_opener(thing)} {q} {thing} {rule('cost', name, COSTS)} {q} * {p} = {q * p} crowns. "
        f"{rule('paying', city + purse, PAYING)} {purse}, it {rule('back', thing + purse, LEAVES)} "
        f"{PURSES[purse]} - {q * p} = {left}. {_closer(rng, purse, name, left, 'crowns')}"
    )
    return question, f"{left} crowns", reply


BUILDERS = (stock, packed, change)
