"""What a checkpoint holds: parts of a training that have a state and can go back to it."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pnca.training.shards import Shards

State = dict[str, Tensor]


class HasState(Protocol):
    """A part of the state that a checkpoint holds."""

    def state(self) -> Mapping[str, Tensor]:
        """All that decides what happens next, as named tensors."""

    def restore(self, state: State) -> None:
        """Go back to a state."""


class Values:
    """A tensor as its own state, restored in place."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def state(self) -> State:
        """The tensor."""
        return {"values": self.tensor}

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Go back to a state."""
        self.tensor.copy_(state["values"])


class NumpyStream:
    """The state of a numpy generator, restored in place."""

    def __init__(self, rng: np.random.RandomState) -> None:
        self.rng = rng

    def state(self) -> State:
        """The state as JSON in bytes, whatever the bit generator."""
        state: Any = self.rng.get_state(legacy=False)
        text = json.dumps(state, default=lambda array: array.tolist())
        return {"json": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}

    def restore(self, state: State) -> None:
        """Go back to a state."""
        content = json.loads(state["json"].numpy().tobytes())
        content["state"] = {
            name: np.array(value, dtype=np.uint32) if isinstance(value, list) else value
            for name, value in content["state"].items()
        }
        self.rng.set_state(content)


class TorchStreams:
    """The states of the generators behind dropout and augmentation, in all ranks.

    They are the fit's own or, if that is None, torch's global ones, of the CPU and of the fit's GPU.
    """

    def __init__(self, generator: torch.Generator | None, device: torch.device, shards: Shards) -> None:
        self.shards = shards
        if generator is not None:
            self.generators = {"own": generator}
        else:
            self.generators = {"cpu": torch.default_generator}
            if device.type == "cuda":
                index = torch.cuda.current_device() if device.index is None else device.index
                self.generators["cuda"] = torch.cuda.default_generators[index]

    def state(self) -> State:
        """State of each generator, one row for each rank."""
        return {name: self.shards.stack(each.get_state()) for name, each in self.generators.items()}

    def restore(self, state: State) -> None:
        """Go back to a state; a rank that the saved group did not have keeps its own."""
        for name, generator in self.generators.items():
            rows = state.get(name, ())
            if self.shards.rank < len(rows):
                # A copy: torch reads a generator's state from the start of the memory, wherever a row begins.
                generator.set_state(rows[self.shards.rank].clone())
