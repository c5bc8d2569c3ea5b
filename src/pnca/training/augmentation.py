"""Images moved, turned and resized a little, anew at every step of the training."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pnca.exceptions import InvalidInputError

#: What strength one means: at most this share of the side, these degrees, this change of size.
SHIFT, ROTATION, RESIZE = 1 / 14, 15.0, 0.1


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """How the numbers of an input form an image."""

    height: int
    width: int
    channels: int = 1
    channels_last: bool = True  # else each channel is an image of its own

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "ImageShape":
        """Read the shape of one input: (h, w), (h, w, channels) or (channels, h, w), with 1, 3 or 4 channels.

        >>> ImageShape.of((3, 64, 48))
        ImageShape(height=64, width=48, channels=3, channels_last=False)
        """
        if len(shape) == 2:
            return cls(height=shape[0], width=shape[1])
        if len(shape) == 3 and shape[2] in (1, 3, 4):
            return cls(height=shape[0], width=shape[1], channels=shape[2])
        if len(shape) == 3 and shape[0] in (1, 3, 4):
            return cls(height=shape[1], width=shape[2], channels=shape[0], channels_last=False)
        raise InvalidInputError(
            f"An input of shape {shape} is not an image: images are (height, width), (height, width, "
            "channels) or (channels, height, width) with 1, 3 or 4 channels. Reshape the inputs, or make "
            "them rows of numbers."
        )

    @property
    def n_numbers(self) -> int:
        """Numbers in one image."""
        return self.height * self.width * self.channels


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Random changes of training images, of one strength for each kind of particles."""

    image: ImageShape
    strengths: tuple[float, ...]  # see augment; one if all particles see the same

    def __call__(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Change inputs (n, ...): (n, ...), or (kinds, n, ...) if there are several strengths."""
        moved = [
            # A rank's rows of a batch may be none.
            augment(inputs, self.image, strength, generator) if len(inputs) else inputs
            for strength in self.strengths
        ]
        return moved[0] if len(moved) == 1 else torch.stack(moved)


def augment(
    inputs: Tensor, image: ImageShape, strength: float, generator: torch.Generator | None = None
) -> Tensor:
    """Move, turn and resize each image (n, ...), flat or not; what enters at the border repeats the border.

    ``strength`` multiplies the largest changes: a fourteenth of the side, fifteen degrees, a tenth of the
    size.
    """
    n, (h, w, c) = len(inputs), (image.height, image.width, image.channels)
    pixels = inputs.reshape(n, h, w, c).movedim(3, 1) if image.channels_last else inputs.reshape(n, c, h, w)

    def up_to_one(k: int) -> Tensor:
        return 2 * torch.rand(n, k, device=inputs.device, dtype=inputs.dtype, generator=generator) - 1

    shift, angle, size = (strength * up_to_one(k) for k in (2, 1, 1))
    turn, zoom = angle * math.radians(ROTATION), 1 / (1 + RESIZE * size).clamp_min(0.1)
    cosine, sine = (turn.cos() * zoom).squeeze(1), (turn.sin() * zoom).squeeze(1)
    # The grid's axes run from -1 to 1, whatever the sides: a turn must not shear.
    moves = torch.stack(
        [
            torch.stack([cosine, -sine * (h / w), 2 * SHIFT * shift[:, 0]], dim=1),
            torch.stack([sine * (w / h), cosine, 2 * SHIFT * shift[:, 1]], dim=1),
        ],
        dim=1,
    )
    grid = functional.affine_grid(moves, [n, c, h, w], align_corners=False)
    moved = functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    return (moved.movedim(1, 3) if image.channels_last else moved).reshape(inputs.shape)
