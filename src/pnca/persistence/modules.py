"""Networks of fitted models: layers by their sizes, and a user's module by what its builder must lead to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pnca.exceptions import InvalidInputError
from pnca.networks import StackedModule
from pnca.persistence.encoding import MalformedError
from pnca.persistence.layouts import DTYPES, Part, Store

#: Numbers of one input with which a module is tried: more than any image has.
_MOST_NUMBERS = 2**27
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Module:
    """Built-in layers, or a user's module: its code is in no file, so a reader is given its builder."""

    layers: Part

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """Names and shapes of the parameters; what is frozen or kept beside them goes to the store."""
        if not isinstance(value, StackedModule):
            return self.layers.write(value, path, store)
        frozen = []
        for name, tensor in _kept(value.template):
            if tensor.dtype not in _NAMES:
                raise InvalidInputError(
                    f"The module keeps {name!r} of {tensor.dtype}, which no file can hold."
                )
            frozen.append([name, _NAMES[tensor.dtype], list(tensor.shape)])
            store.put(f"{path}.{name}", tensor.contiguous())
        return {
            "StackedModule": {
                "sample": list(value.sample.shape),
                "n_outputs": value.n_outputs,
                "n_features": value.n_features,
                "trained": [[*part] for part in _trained(value)],
                "frozen": frozen,
            }
        }

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The network, with what was frozen as it was."""
        if not (isinstance(found, dict) and found.keys() == {"StackedModule"}):
            network = self.layers.read(found, path, store)
            if store.module is not None:
                raise InvalidInputError("The model has built-in layers: leave out module.")
            return network
        if store.module is None:
            raise InvalidInputError(
                "The model was fitted with a module, whose code is in no file: pass module=, the callable "
                "that builds it."
            )
        content = found["StackedModule"]
        sample = _checked(content, store)
        network = StackedModule(store.module, sample=torch.zeros(sample), n_outputs=content["n_outputs"])
        _compare(network, content)
        self._restore(network.template, path, store)
        store.agree("o", network.n_outputs or network.n_features, path)
        store.agree("q", sum(shape.numel() for shape in network.shapes), path)
        return network

    @staticmethod
    def _restore(template: nn.Module, path: str, store: Store) -> None:
        with torch.no_grad():
            for name, tensor in _kept(template):
                here = f"{path}.{name}"
                stored = store.take(here, list(range(tensor.dim())))
                if stored.dtype != tensor.dtype or stored.shape != tensor.shape:
                    raise MalformedError(f"{here} of another shape")
                tensor.copy_(stored)


def _checked(content: Any, store: Store) -> list[int]:  # noqa: ANN401
    """The shape of the inputs with which the module is tried, after a look at all that is said of it."""
    names = {"sample", "n_outputs", "n_features", "trained", "frozen"}
    if not isinstance(content, dict) or content.keys() != names:
        raise MalformedError("a module of other fields")
    sample: list[int] = content["sample"]
    outputs = content["n_outputs"]
    described = [content["trained"], content["frozen"]]
    if not all(isinstance(parts, list) and all(isinstance(p, list) for p in parts) for parts in described):
        raise MalformedError("a module of no parameters")
    is_shape = (
        isinstance(sample, list) and 2 <= len(sample) <= 6 and all(type(side) is int for side in sample)
    )
    if (
        not is_shape
        or math.prod(sample) > _MOST_NUMBERS
        or not (outputs is None or (type(outputs) is int and 1 <= outputs <= 2**31))
    ):
        raise MalformedError("a module of no inputs")
    if not 1 <= sample[0] <= 2 or tuple(sample[1:]) != store.lengths["shape"]:
        raise MalformedError("a module of other inputs")
    store.agree("...", tuple(sample[1:]), "module")
    return sample


def _compare(network: StackedModule, content: Mapping[str, Any]) -> None:
    """An error if the builder leads to other parameters than those that were saved."""
    kept = [[name, _NAMES.get(t.dtype, str(t.dtype)), list(t.shape)] for name, t in _kept(network.template)]
    for what, own, saved in (
        ("trains", [[*part] for part in _trained(network)], content["trained"]),
        ("keeps", kept, content["frozen"]),
        ("has outputs", network.n_features, content["n_features"]),
    ):
        if own != saved:
            raise InvalidInputError(
                f"module is another one than that of the model: it {what} {_first(own, saved)}; pass the "
                "builder with which the model was fitted."
            )


def _first(own: Any, saved: Any) -> str:  # noqa: ANN401
    """The first difference, in words."""
    if isinstance(own, list) and isinstance(saved, list):
        mine, other = (
            next((part for part in a if part not in b), None) for a, b in ((own, saved), (saved, own))
        )
        return f"{_told(mine)}, where the model has {_told(other)}"
    return f"{own}, where the model has {saved}"


def _told(part: Any) -> str:  # noqa: ANN401
    return "nothing" if part is None else " ".join(map(str, part))[:200]


def _trained(network: StackedModule) -> Iterator[tuple[str, list[int]]]:
    for name, shape in zip(network.names, network.shapes, strict=True):
        yield name, list(shape)


def _kept(template: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Frozen parameters and buffers by name, those that are not in a state dict too."""
    for name, parameter in template.named_parameters():
        if not parameter.requires_grad:
            yield name, parameter.detach()
    yield from template.named_buffers()
