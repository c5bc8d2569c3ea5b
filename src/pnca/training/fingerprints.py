"""Fingerprints: hashes that tell whether two fits have the same data and the same parameters."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from pnca import __version__

#: Parameters that do not decide what is learnt, or do so through the initial particles and the network.
_UNIMPORTANT = frozenset({"device", "random_state", "verbose", "module"})


def fingerprint(value: Any) -> str:  # noqa: ANN401
    """Hash an array, a tensor, a module or a plain value by its content.

    Parameters
    ----------
    value : array, Tensor, Module, None, or anything with a telling ``repr``
        Of arrays the shape, the type and every number count; of a module its parameters and buffers.

    Returns
    -------
    str
        Sixteen hexadecimal digits.

    Examples
    --------
    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3))
    True
    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3.0))
    False
    """
    digest = hashlib.blake2b(digest_size=8)
    if isinstance(value, nn.Module):
        for name, tensor in value.state_dict().items():
            digest.update(f"{name} {fingerprint(tensor)} ".encode())
        return digest.hexdigest()
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    else:
        digest.update(repr(value.tolist() if isinstance(value, np.ndarray) else value).encode())
    return digest.hexdigest()


def parameter_fingerprints(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Fingerprints of the parameters that decide what is learnt.

    Parameters
    ----------
    parameters : mapping
        From ``get_params``.

    Returns
    -------
    dict
        By name, without ``device``, ``verbose``, ``random_state`` and ``module``.

    Examples
    --------
    >>> list(parameter_fingerprints({"n_particles": 3, "verbose": True}))
    ['n_particles']
    """
    return {name: fingerprint(value) for name, value in parameters.items() if name not in _UNIMPORTANT}


def fit_fingerprints(model: str, parameters: Mapping[str, Any], **parts: Any) -> dict[str, str]:  # noqa: ANN401
    """Fingerprints of all that two equal fits have in common.

    Parameters
    ----------
    model : str
        Name of the class.
    parameters : mapping
        From ``get_params``.
    **parts
        What else decides the fit, such as data and initial particles: arrays, or lists of arrays.

    Returns
    -------
    dict
        By name, which an error shows where two fits differ.
    """
    of_parts = {
        name: fingerprint([fingerprint(item) for item in part] if isinstance(part, list) else part)
        for name, part in parts.items()
    }
    return {"model": model, "version of pnca": __version__, **of_parts, **parameter_fingerprints(parameters)}
