"""What a checkpoint is, read from config.json and safetensors headers (or from models/*.yml). Never loads a tensor.

Nothing here imports torch, touches the network or writes a file.
"""

from specdeck.checkpoint.facts import CheckpointFacts, load_facts, published_facts
from specdeck.checkpoint.headers import Tensor, read_header

__all__ = ["CheckpointFacts", "Tensor", "load_facts", "published_facts", "read_header"]
