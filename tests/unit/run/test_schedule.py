"""The measuring order."""

from itertools import pairwise

from specdeck.run.schedule import schedule


def test_every_arm_stands_once_at_every_place_over_as_many_rounds_as_arms() -> None:
    keys = schedule(["none", "mtp", "dflash2"], [1], rounds=3)
    by_round = [[key.arm for key in keys if key.round == r] for r in (1, 2, 3)]
    assert by_round == [["none", "mtp", "dflash2"], ["mtp", "dflash2", "none"], ["dflash2", "none", "mtp"]]


def test_cells_are_unique_and_order_counts_up_from_one() -> None:
    keys = schedule(["none", "mtp"], [1, 4], rounds=2)
    assert len({(key.arm, key.cell_id) for key in keys}) == len(keys) == 8
    assert keys[0].order == 1
    assert all(b.order == a.order + 1 for a, b in pairwise(keys))


def test_concurrencies_of_one_arm_and_round_are_measured_together() -> None:
    keys = schedule(["none", "mtp"], [1, 4], rounds=1)
    assert [(key.arm, key.cell_id) for key in keys] == [
        ("none", "c1-r1"), ("none", "c4-r1"), ("mtp", "c1-r1"), ("mtp", "c4-r1"),
    ]  # fmt: skip
