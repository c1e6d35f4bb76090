"""Proves what a drafter gets of Qwen4Exp: the completed output of each layer it reads, averaged over the streams.

The layers leave their last combine to the next mix, as vLLM's do. What is expected is computed apart, without a delay.
"""

from __future__ import annotations

import sys
from itertools import islice
from types import SimpleNamespace
from typing import Any

from statements import bases, method, read, run

STREAMS, HIDDEN, TOKENS, LAYERS = 3, 2, 4, 5


class States:
    """As much of a tensor [tokens, width] as is used."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = rows
        self.shape = (len(rows), len(rows[0]))

    def repeat(self, _rows: int, times: int) -> States:
        """As a tensor's."""
        return States([row * times for row in self.rows])

    def unflatten(self, _axis: int, sizes: tuple[int, int]) -> States:
        """As a tensor's; the rows stay flat, and `mean` takes them apart."""
        assert sizes == (STREAMS, HIDDEN)
        return self

    def mean(self, dim: int) -> States:
        """Average over the streams."""
        assert dim == -2
        return States([[sum(row[i::HIDDEN]) / STREAMS for i in range(HIDDEN)] for row in self.rows])

    def unsqueeze(self, _axis: int) -> States:
        """As a tensor's."""
        return self

    def expand(self, *sizes: int) -> States:
        """As a tensor's, to all streams."""
        assert sizes[-2:] == (STREAMS, HIDDEN)
        return self.repeat(1, STREAMS)

    def flatten(self, _axis: int) -> States:
        """As a tensor's."""
        return self

    def __add__(self, other: States) -> States:
        return States([[a + b for a, b in zip(*rows, strict=True)] for rows in zip(self.rows, other.rows, strict=True)])

    def __getitem__(self, rows: slice) -> States:
        return States(self.rows[rows])


def combine(states: States, output: States, injection: list[float]) -> States:
    """Add a block's output to every stream, with a weight for each."""
    wide = [[weight * value for weight in injection for value in row] for row in output.rows]
    return states + States(wide)


class Layer:
    """A layer whose last combine is pending when it returns."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.mlp_hyper_connection = SimpleNamespace(combine=combine)

    def blocks(self, states: States) -> tuple[States, States, list[float]]:
        """Run both blocks; the second one's combine is left to the caller."""
        weights = [0.5 + self.number + stream for stream in range(STREAMS)]
        attention = States([[value * value - self.number for value in row] for row in states.mean(dim=-2).rows])
        states = combine(states, attention, weights[::-1])
        return states, States([[1.0 / (2.0 + value * value) for value in row] for row in states.mean(-2).rows]), weights

    def __call__(self, *, hidden_states: States, prev_block_output: Any, prev_injection: Any, **_inputs: Any) -> Any:
        """Consume the pending combine, then run both blocks."""
        if prev_block_output is not None:
            hidden_states = combine(hidden_states, prev_block_output, prev_injection)
        return self.blocks(hidden_states)


def mixer(states: States, output: States | None, injection: Any) -> tuple[States, States, None]:
    """Stand for the final mixer."""
    multi = states if output is None else combine(states, output, injection)
    return multi, multi.mean(dim=-2), None


def expected(embeddings: States, deepstack: list[States]) -> list[States]:
    """Return the state before the first layer and after each, nothing pending, averaged over the streams."""
    states = embeddings.repeat(1, STREAMS)
    found = [states.mean(dim=-2)]
    for number in range(LAYERS):
        states = combine(*Layer(number).blocks(states))
        if number < len(deepstack):
            states += deepstack[number].repeat(1, STREAMS)
        found.append(states.mean(dim=-2))
    return found


gathered: list[States] = []


def gather(states: States) -> States:
    """Stand for the gathering over ranks, which pads: rows of padding must not reach a drafter."""
    gathered.append(states)
    return States([*states.rows, [9.0] * states.shape[1]])


tree = read("vllm/models/qwen4_exp/nvidia/model.py")
names: dict[str, Any] = {
    "get_pp_group": lambda: SimpleNamespace(is_first_rank=True, is_last_rank=True),
    "islice": islice,
    "sp_shard": lambda states: states,
    "sp_all_gather": gather,
}
run([method(tree, "Qwen4ExpModel", "forward")], names)
try:
    run([method(tree, "Qwen4ExpModel", "_aux_hidden_state")], names)
except SystemExit:
    print("Qwen4Exp captures nothing")
    sys.exit(1)


def forward(taps: tuple[int, ...], embeddings: States, deepstack: list[States], *, parallel: bool = False) -> Any:
    """Run vLLM's own forward over the stand-ins."""
    model = SimpleNamespace(
        aux_hidden_state_layers=taps,
        config=SimpleNamespace(hc_count=STREAMS, hidden_size=HIDDEN),
        layers=[Layer(number) for number in range(LAYERS)],
        start_layer=0,
        end_layer=LAYERS,
        use_hc_sequence_parallel=parallel,
        use_sequence_parallel=False,
        hyper_connection_mixer=SimpleNamespace(combine_and_mix=mixer),
        _mtp_hidden_buffer=None,
        _start_layer_ple_prefetch=lambda *_inputs: None,
        embed_input_ids=lambda _ids: embeddings,
    )
    model.__dict__["_aux_hidden_state"] = lambda *given: names["_aux_hidden_state"](model, *given)
    embeds = {f"deepstack_input_embeds_{i}": states for i, states in enumerate(deepstack)} or None
    return names["forward"](
        model, "ids", SimpleNamespace(shape=(3, TOKENS)), deepstack_input_embeds=embeds, query_start_loc=None
    )


def close(one: States, other: States) -> bool:
    """Whether all values are the same but for rounding."""
    pairs = [pair for rows in zip(one.rows, other.rows, strict=True) for pair in zip(*rows, strict=True)]
    return one.shape == other.shape and all(abs(a - b) < 1e-9 for a, b in pairs)


start = States([[0.1 * token + 0.3 * value for value in range(1, HIDDEN + 1)] for token in range(TOKENS)])
images = [States([[0.7 * level - 0.2 * token] * HIDDEN for token in range(TOKENS)]) for level in (1, 2)]
for deepstack in ([], images):
    after = expected(start, deepstack)
    plain = forward((), start, deepstack)
    if not isinstance(plain, States) or not close(plain, after[-1]):
        print("without a drafter it does not return the sampled stream alone")
        sys.exit(1)
    for taps in ((1,), (2, 4), (0, 3, 5)):
        for parallel in (False, True):
            gathered.clear()
            sampled, captured = forward(taps, start, deepstack, parallel=parallel)
            if len(gathered) != parallel * (len(taps) + 1):
                print("with hyper-connections split over ranks a drafter gets one rank's tokens")
                sys.exit(1)
            if sampled.rows != plain.rows:
                print(f"a drafter that reads {taps} changes what the target samples from")
                sys.exit(1)
            if len(captured) != len(taps) or not all(
                close(found, after[tap]) for tap, found in zip(taps, captured, strict=True)
            ):
                print(f"a drafter that reads {taps} gets something else than the layers' completed outputs")
                sys.exit(1)
for name, wanted in (
    ("Qwen4ExpModel", "EagleModelMixin"),
    ("Qwen4ExpForCausalLM", "SupportsEagle3"),
    ("Qwen4ExpForConditionalGeneration", "SupportsEagle3"),
):
    if wanted not in bases(tree, name):
        print(f"{name} is no {wanted}")
        sys.exit(1)
