import sys

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError, MissingExtraError
from pnca.vision import EQUALISED_CROP, IMAGENET_CROP, Preprocessing, read_image

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")

WHOLE = Preprocessing(size=8, mode="squash", interpolation="nearest")  # leaves 8 x 8 images as they are


@pytest.fixture
def colours():
    # Neither square symmetric nor grey, so that swapped axes or channels show.
    return np.random.default_rng(0).integers(0, 256, size=(8, 8, 3), dtype=np.uint8)


def saved(path, image, **options):
    image.save(path, **options)
    return path


def test_read_image__colours_come_back_unchanged(tmp_path, colours):
    path = saved(tmp_path / "a.png", Image.fromarray(colours))
    np.testing.assert_array_equal(read_image(path, WHOLE), colours)


def test_read_image__grey_fills_three_channels(tmp_path, colours):
    path = saved(tmp_path / "a.png", Image.fromarray(colours[..., 0]))
    np.testing.assert_array_equal(read_image(path, WHOLE), np.repeat(colours[..., :1], 3, axis=2))


# --- size -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(300, 256), (256, 301), (256, 256), (256, 511)])
def test_crop__takes_the_centre_when_the_short_side_fits(tmp_path, shape):
    grey = np.random.default_rng(1).integers(0, 256, size=shape, dtype=np.uint8)
    top, left = ((length - 224) // 2 for length in shape)
    pixels = read_image(saved(tmp_path / "a.png", Image.fromarray(grey)))
    np.testing.assert_array_equal(pixels[..., 0], grey[top : top + 224, left : left + 224])


@pytest.mark.parametrize("shape", [(100, 150), (700, 401), (3, 900), (1, 1)])
@pytest.mark.parametrize("preprocessing", [IMAGENET_CROP, EQUALISED_CROP, Preprocessing(size=33)])
def test_read_image__any_image_gets_the_right_size(tmp_path, shape, preprocessing):
    path = saved(tmp_path / "a.png", Image.fromarray(np.full(shape, 9, np.uint8)))
    assert read_image(path, preprocessing).shape == (preprocessing.size, preprocessing.size, 3)


def test_crop__keeps_proportions_and_squash_does_not(tmp_path):
    # A disc in an image twice as wide as high.
    rows, columns = np.mgrid[:200, :400]
    disc = np.uint8(255 * ((rows - 100) ** 2 + (columns - 200) ** 2 < 60**2))
    path = saved(tmp_path / "disc.png", Image.fromarray(disc))

    def proportions(mode):
        light = read_image(path, Preprocessing(mode=mode))[..., 0] > 127
        return light.any(axis=0).sum() / light.any(axis=1).sum()  # width by height

    assert proportions("crop") == pytest.approx(1.0, abs=0.03)  # a pixel in sixty
    assert proportions("squash") == pytest.approx(0.5, abs=0.03)


def test_squash__equals_pillow(tmp_path, colours):
    path = saved(tmp_path / "a.png", Image.fromarray(colours))
    expected = Image.fromarray(colours).resize((21, 21), Image.Resampling.BICUBIC)
    pixels = read_image(path, Preprocessing(size=21, mode="squash", interpolation="bicubic"))
    np.testing.assert_array_equal(pixels, np.asarray(expected))


def test_equalise__happens_before_the_cut(tmp_path):
    # Dark border, light centre: equalised after the cut, the centre would span the whole range.
    grey = np.random.default_rng(2).integers(0, 50, size=(256, 256), dtype=np.uint8)
    grey[16:240, 16:240] += 150
    path = saved(tmp_path / "a.png", Image.fromarray(grey))
    expected = np.asarray(ImageOps.equalize(Image.fromarray(grey)))[16:240, 16:240]
    pixels = read_image(path, EQUALISED_CROP)[..., 0]
    np.testing.assert_array_equal(pixels, expected)
    assert pixels.min() > 40


# --- formats --------------------------------------------------------------------------------------------


def test_16_bits__are_scaled_by_their_range(tmp_path):
    # 12 bits in a 16-bit file, as X-rays come; clipping makes it white, dividing by 256 nearly black.
    values = np.linspace(200, 4095, 64).astype(np.uint16).reshape(8, 8)
    path = saved(tmp_path / "xray.png", Image.fromarray(values))
    with Image.open(path) as stored:
        assert stored.mode.startswith("I")
    expected = (values.astype(float) - 200) / (4095 - 200) * 255
    np.testing.assert_allclose(read_image(path, WHOLE)[..., 1], expected, atol=0.5)  # rounding to integers


def test_16_bits__constant_image_is_black(tmp_path):
    path = saved(tmp_path / "flat.png", Image.fromarray(np.full((8, 8), 3000, np.uint16)))
    assert not read_image(path, WHOLE).any()


def test_float_pixels__are_scaled_and_nan_is_refused(tmp_path):
    values = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    pixels = read_image(saved(tmp_path / "a.tiff", Image.fromarray(values)), WHOLE)
    assert (pixels.min(), pixels.max()) == (0, 255)
    values[3, 3] = np.nan
    with pytest.raises(CorruptDataError, match=r"b\.tiff .* not numbers"):
        read_image(saved(tmp_path / "b.tiff", Image.fromarray(values)), WHOLE)


def test_palette__gives_its_colours(tmp_path):
    stripes = np.zeros((8, 8, 3), np.uint8)
    stripes[::2] = (250, 10, 30)
    palette = Image.fromarray(stripes).convert("P", palette=Image.Palette.ADAPTIVE, colors=2)
    path = saved(tmp_path / "a.png", palette)
    np.testing.assert_array_equal(read_image(path, WHOLE), np.asarray(palette.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency__is_laid_on_black(tmp_path, mode, colours):
    image = Image.fromarray(colours).convert(mode)
    alpha = np.full((8, 8), 255, np.uint8)
    alpha[:, :4] = 0
    image.putalpha(Image.fromarray(alpha))
    pixels = read_image(saved(tmp_path / "a.png", image), WHOLE)
    assert not pixels[:, :4].any()
    np.testing.assert_array_equal(pixels[:, 4:], np.asarray(image.convert("RGB"))[:, 4:])


def test_transparent_palette__is_laid_on_black(tmp_path):
    grey = Image.fromarray(np.uint8([[0] * 4 + [255] * 4] * 8)).convert("P")
    white = grey.getpixel((7, 0))
    path = saved(tmp_path / "a.png", grey, transparency=white)
    assert not read_image(path, WHOLE).any()


def test_cmyk_and_one_bit__become_rgb(tmp_path, colours):
    cmyk = Image.fromarray(colours).convert("CMYK")
    path = saved(tmp_path / "a.tiff", cmyk)
    np.testing.assert_array_equal(read_image(path, WHOLE), np.asarray(cmyk.convert("RGB")))
    black_and_white = Image.fromarray(colours[..., 0] > 127)
    path = saved(tmp_path / "b.png", black_and_white)
    np.testing.assert_array_equal(read_image(path, WHOLE)[..., 2], 255 * (colours[..., 0] > 127))


def test_orientation__is_applied(tmp_path, colours):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held so that the picture must be turned clockwise
    path = saved(tmp_path / "a.png", Image.fromarray(colours), exif=exif)
    np.testing.assert_array_equal(read_image(path, WHOLE), np.rot90(colours, -1))


def test_animation__gives_its_first_frame(tmp_path):
    frames = [Image.new("L", (8, 8), level) for level in (80, 200)]
    path = saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert (read_image(path, WHOLE) == 80).all()


# --- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("part", [0.0, 0.02, 0.6, 0.9])
def test_truncated_file__is_named(tmp_path, suffix, part):
    noise = np.random.default_rng(3).integers(0, 256, size=(80, 80, 3), dtype=np.uint8)
    path = saved(tmp_path / f"cut.{suffix}", Image.fromarray(noise))
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(CorruptDataError, match=rf"cut\.{suffix}"):
        read_image(path)


def test_other_file__is_named(tmp_path):
    path = tmp_path / "notes.png"
    path.write_text("not an image")
    with pytest.raises(CorruptDataError, match=r"notes\.png cannot be read"):
        read_image(path)


def test_missing_file__is_named(tmp_path):
    with pytest.raises(MissingDataError, match=r"no image .*gone\.png"):
        read_image(tmp_path / "gone.png")


def test_folder__is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be opened"):
        read_image(tmp_path)


def test_too_many_pixels__are_refused(tmp_path, monkeypatch):
    path = saved(tmp_path / "vast.png", Image.new("L", (100, 100)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InvalidInputError, match=r"vast\.png has too many pixels"):
        read_image(path)


def test_missing_pillow__names_the_extra(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.png", Image.new("L", (8, 8)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[vision\]"):
        read_image(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "pad"}, "mode must be one of crop, squash, but it is 'pad'"),
        ({"interpolation": "cubic"}, "interpolation must be one of nearest, bilinear"),
        ({"size": 0}, "size must be a whole number from 1"),
        ({"size": 224.0}, "size must be a whole number from 1"),
        ({"resize": 200}, "resize must be a whole number from 224"),
    ],
)
def test_preprocessing__says_what_is_wrong(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        Preprocessing(**settings)


def test_preprocessing__key_differs_with_every_setting():
    settings = [
        Preprocessing(),
        Preprocessing(size=192, resize=256),
        Preprocessing(resize=224),
        Preprocessing(mode="squash", resize=256),
        Preprocessing(equalise=True),
        Preprocessing(interpolation="bicubic"),
    ]
    assert len({setting.key for setting in settings}) == len(settings)
    assert Preprocessing(resize=256).key == Preprocessing().key  # spelt out, the same
