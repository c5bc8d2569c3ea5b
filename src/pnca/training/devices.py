"""Where the arithmetic runs."""

import torch

from pnca.exceptions import InvalidInputError


def resolve_device(name: str) -> torch.device:
    """Turn a user's ``device`` into a torch device that works on this machine.

    Parameters
    ----------
    name : str
        ``"auto"`` (a CUDA GPU if there is one, else the CPU) or any torch device name.

    Returns
    -------
    torch.device

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n", maxsplit=1)[0].rstrip(".")
        raise InvalidInputError(
            f"device={name!r} cannot be used here ({reason}); use 'auto' or 'cpu'."
        ) from error
    return device
