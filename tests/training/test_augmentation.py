import math

import pytest
import torch
from torch.nn import functional

from pnca.exceptions import InvalidInputError
from pnca.networks import seeded
from pnca.training import augmentation
from pnca.training.augmentation import Augmentation, ImageShape, augment

# Shape of the inputs, and how they form images.
SHAPES = [
    ((35,), ImageShape(height=7, width=5)),
    ((7, 5), ImageShape(height=7, width=5)),
    ((7, 5, 3), ImageShape(height=7, width=5, channels=3)),
    ((3, 7, 5), ImageShape(height=7, width=5, channels=3, channels_last=False)),
    ((105,), ImageShape(height=7, width=5, channels=3)),
    ((1, 7, 5), ImageShape(height=7, width=5, channels=1, channels_last=False)),
]


def images(shape, n=6, seed=0):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def largest(monkeypatch):
    """Let augmentation always make the largest change, of the kinds that the test asks for."""

    def set_changes(*, shift=0.0, degrees=0.0, resize=0.0):
        monkeypatch.setattr(augmentation, "SHIFT", shift)
        monkeypatch.setattr(augmentation, "ROTATION", degrees)
        monkeypatch.setattr(augmentation, "RESIZE", resize)
        monkeypatch.setattr(augmentation.torch, "rand", lambda *size, **settings: torch.ones(*size))

    return set_changes


# Shapes


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((28, 30), ImageShape(height=28, width=30)),
        ((28, 30, 1), ImageShape(height=28, width=30, channels=1)),
        ((28, 30, 4), ImageShape(height=28, width=30, channels=4)),
        ((3, 28, 30), ImageShape(height=28, width=30, channels=3, channels_last=False)),
        ((3, 28, 3), ImageShape(height=3, width=28, channels=3)),  # the last is asked first
    ],
)
def test_image_shape__is_read_off_the_inputs(shape, expected):
    assert ImageShape.of(shape) == expected
    assert ImageShape.of(shape).n_numbers == math.prod(shape)


@pytest.mark.parametrize("shape", [(), (784,), (2, 5, 7), (28, 28, 5), (1, 3, 8, 8)])
def test_image_shape__what_is_no_image_says_what_is_one(shape):
    with pytest.raises(InvalidInputError, match=r"not an image: images are \(height, width\).*Reshape"):
        ImageShape.of(shape)


# What augmentation keeps


@pytest.mark.parametrize(("shape", "image"), SHAPES)
def test_augment__of_strength_zero_is_the_identity(shape, image):
    inputs = images(shape)
    torch.testing.assert_close(augment(inputs, image, 0.0), inputs, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("shape", "image"), SHAPES)
@pytest.mark.parametrize("strength", [1.0, 5.0])
def test_augment__keeps_shape_and_range_and_changes_each_image(shape, image, strength):
    inputs = images(shape)
    inputs[0] += 10
    moved = augment(inputs, image, strength)
    assert moved.shape == inputs.shape
    for before, after in zip(inputs, moved, strict=True):
        assert before.min() - 1e-5 <= after.min()
        assert after.max() <= before.max() + 1e-5
        assert (before - after).abs().max() > 1e-3


def test_augment__leaves_a_constant_image_alone():
    image = ImageShape(height=7, width=5)
    torch.testing.assert_close(augment(torch.full((3, 7, 5), 0.3), image, 1.0), torch.full((3, 7, 5), 0.3))


def test_augment__layouts_of_the_same_image_give_the_same():
    last = images((7, 5, 3))
    results = []
    for inputs, image in (
        (last, ImageShape.of((7, 5, 3))),
        (last.flatten(1), ImageShape.of((7, 5, 3))),
        (last.movedim(3, 1), ImageShape.of((3, 7, 5))),
    ):
        with seeded(0):
            results.append(augment(inputs, image, 1.0))
    torch.testing.assert_close(results[1].view(6, 7, 5, 3), results[0])
    torch.testing.assert_close(results[2].movedim(1, 3), results[0])


def test_augment__images_move_differently_and_repeatably():
    same = images((9, 9), n=1).expand(4, 9, 9)
    with seeded(0):
        first = augment(same, ImageShape(height=9, width=9), 1.0)
    with seeded(0):
        assert torch.equal(augment(same, ImageShape(height=9, width=9), 1.0), first)
    assert not torch.allclose(first[0], first[1])


# What it does


def grid(h, w):
    """Coordinates of the pixels from the centre, in pixels."""
    rows, columns = torch.arange(h) - (h - 1) / 2, torch.arange(w) - (w - 1) / 2
    return torch.meshgrid(rows, columns, indexing="ij")


@pytest.mark.parametrize(("h", "w"), [(21, 21), (21, 41), (41, 21)])
@pytest.mark.parametrize("degrees", [15.0, 45.0, 90.0])
def test_augment__a_turned_disc_is_the_same_disc(h, w, degrees, largest):
    largest(degrees=degrees)
    y, x = grid(h, w)
    disc = ((10 - (y**2 + x**2).sqrt()) / 4).clamp(0, 1)  # with a soft edge
    turned = augment(disc[None], ImageShape(height=h, width=w), 1.0)[0]
    # Interpolation rounds the soft edge by less than half a pixel; a shear by h / w would move it by several.
    assert (turned - disc).abs().max() < 0.5 / 4


@pytest.mark.parametrize(("h", "w"), [(21, 21), (21, 41), (41, 21)])
def test_augment__a_quarter_turn_lays_a_bar_on_its_side(h, w, largest):
    largest(degrees=90.0)
    y, x = grid(h, w)
    upright = ((y.abs() <= 8) & (x.abs() <= 2)).float()
    lying = ((x.abs() <= 8) & (y.abs() <= 2)).float()
    turned = augment(upright[None], ImageShape(height=h, width=w), 1.0)[0]
    torch.testing.assert_close(turned, lying, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("h", "w"), [(8, 8), (8, 16)])
def test_augment__shifts_by_a_share_of_the_side(h, w, largest):
    largest(shift=0.25)
    image = images((h, w), n=1)
    moved = augment(image, ImageShape(height=h, width=w), 1.0)
    down, right = h // 4, w // 4
    torch.testing.assert_close(moved[0, :-down, :-right], image[0, down:, right:], atol=1e-5, rtol=0)
    # What enters repeats the border.
    torch.testing.assert_close(moved[0, -1, :-right], image[0, -1, right:], atol=1e-5, rtol=0)


def test_augment__resizes_about_the_centre(largest):
    largest(resize=1.0)  # twice the size
    y, x = grid(32, 32)
    blob = torch.exp(-(y**2 + x**2) / 20)
    moved = augment(blob[None], ImageShape(height=32, width=32), 1.0)[0]
    torch.testing.assert_close(moved, torch.exp(-(y**2 + x**2) / 80), atol=0.02, rtol=0)


def test_augment__strength_one_stays_within_its_limits():
    # The centre of mass of a spot in the middle tells the shift, whatever the turn and the size.
    y, x = grid(29, 29)
    spot = torch.exp(-(y**2 + x**2) / 8).expand(500, 29, 29)
    with seeded(0):
        moved = augment(spot, ImageShape(height=29, width=29), 1.0)
    shares = moved / moved.sum(dim=(1, 2), keepdim=True)
    for axis in (y, x):
        shift = (shares * axis).sum(dim=(1, 2))
        # A fourteenth of 29 pixels, in image coordinates that were turned and resized.
        assert 0.8 * 29 / 14 < shift.abs().max() < 1.1 * 29 / 14 * (math.cos(0.27) + math.sin(0.27))
        assert abs(shift.mean()) < 0.3


def test_augment__agrees_with_torch_for_a_square():
    with seeded(3):
        moved = augment(images((9, 9), n=1), ImageShape(height=9, width=9), 1.0)
    with seeded(3):
        (dx, dy), angle, size = (
            2 * torch.rand(1, 2)[0] - 1,
            2 * torch.rand(1, 1) - 1,
            2 * torch.rand(1, 1) - 1,
        )
    turn, zoom = math.radians(15) * angle.item(), 1 / (1 + 0.1 * size.item())
    move = torch.tensor(
        [
            [zoom * math.cos(turn), -zoom * math.sin(turn), dx / 7],
            [zoom * math.sin(turn), zoom * math.cos(turn), dy / 7],
        ]
    )
    at = functional.affine_grid(move[None], [1, 1, 9, 9], align_corners=False)
    expected = functional.grid_sample(
        images((9, 9), n=1)[None], at, padding_mode="border", align_corners=False
    )
    torch.testing.assert_close(moved, expected[0], atol=1e-5, rtol=0)


# Kinds of particles, and whose randomness


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_augmentation__draws_from_the_given_generator_alone():
    image, inputs = ImageShape(height=7, width=5), images((7, 5))
    before = torch.get_rng_state()
    first, again, other = (augment(inputs, image, 1.0, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_augmentation__of_one_strength_is_the_same_for_all_particles():
    image, inputs = ImageShape(height=7, width=5), images((35,))
    moved = Augmentation(image=image, strengths=(0.7,))(inputs, generator())
    assert torch.equal(moved, augment(inputs, image, 0.7, generator()))


def test_augmentation__of_several_strengths_draws_anew_for_each_kind():
    image, inputs, source = ImageShape(height=7, width=5), images((35,)), generator()
    moved = Augmentation(image=image, strengths=(1.0, 1.5))(inputs, generator())
    expected = torch.stack([augment(inputs, image, strength, source) for strength in (1.0, 1.5)])
    assert moved.shape == (2, 6, 35)
    assert torch.equal(moved, expected)


@pytest.mark.parametrize(("strengths", "shape"), [((1.0,), (0, 35)), ((1.0, 1.5), (2, 0, 35))])
def test_augmentation__takes_a_rank_without_rows(strengths, shape):
    image = ImageShape(height=7, width=5)
    assert Augmentation(image=image, strengths=strengths)(torch.empty(0, 35), generator()).shape == shape
