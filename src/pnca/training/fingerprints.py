"""Fingerprints: hashes that tell whether two fits have the same data and the same parameters."""

import hashlib
from collections.abc import Mapping
from types import CodeType
from typing import Any

import numpy as np
from torch import Tensor, nn

from pnca import __version__

#: Parameters that do not decide what is learnt, or do so through the initial particles and the network.
_UNIMPORTANT = frozenset({"device", "random_state", "verbose", "module"})


def fingerprint(value: Any) -> str:  # noqa: ANN401
    """Name a value by its content, in sixteen letters and digits.

    Of arrays and tensors the shape, the type and every number count, of a module its layers with their
    settings and the code of their ``forward``, parameters and buffers, of anything else its ``repr``.

    >>> [fingerprint(other) == fingerprint(np.arange(3)) for other in (np.arange(3), np.arange(3.0))]
    [True, False]
    """
    digest = hashlib.blake2b(digest_size=8)
    if isinstance(value, nn.Module):
        for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
            digest.update(f"{name} {fingerprint(tensor)} ".encode())
        for name, layer in value.named_modules():
            forward = getattr(type(layer).forward, "__code__", None)
            plain = {key: item for key, item in vars(layer).items() if _is_setting(key, item)}
            told = type(layer).__qualname__, layer.extra_repr(), sorted(plain.items()), _code(forward)
            digest.update(f"{name} {told} ".encode())
        return digest.hexdigest()
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    else:
        digest.update(repr(value.tolist() if isinstance(value, np.ndarray) else value).encode())
    return digest.hexdigest()


def _is_setting(name: str, value: Any) -> bool:  # noqa: ANN401
    """Whether an attribute of a layer is a number or a word that its user chose."""
    return not name.startswith("_") and name != "training" and isinstance(value, bool | int | float | str)


def _code(part: Any) -> str:  # noqa: ANN401
    """What code does, wherever it is written: its instructions, constants and names, and of code within."""
    if isinstance(part, CodeType):
        return f"{part.co_code!r} {part.co_names} {[_code(constant) for constant in part.co_consts]}"
    if isinstance(part, frozenset):  # of which the order changes from process to process
        return str(sorted(map(repr, part)))
    return repr(part)


def parameter_fingerprints(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Fingerprints, by name, of those parameters of ``get_params`` that decide what is learnt.

    >>> list(parameter_fingerprints({"n_particles": 3, "verbose": True}))
    ['n_particles']
    """
    return {name: fingerprint(value) for name, value in parameters.items() if name not in _UNIMPORTANT}


def fit_fingerprints(model: str, parameters: Mapping[str, Any], **parts: Any) -> dict[str, str]:  # noqa: ANN401
    """Fingerprints, by name, of what makes a fit this one and no other.

    The parts are its data, scale, module and initial particles: arrays, or lists of arrays.
    """
    of_parts = {
        name: fingerprint([fingerprint(item) for item in part] if isinstance(part, list) else part)
        for name, part in parts.items()
    }
    return {"model": model, "version of pnca": __version__, **of_parts, **parameter_fingerprints(parameters)}
