from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from pnca.exceptions import InvalidInputError
from pnca_studies.reports import MODEL_STYLES, input_strip_figure, save_figure


def _strip(k=3, models=("PNCA", "DNN"), **changes):
    rng = np.random.default_rng(0)
    arguments = {
        "images": rng.uniform(size=(k, 8, 8)),
        "group_names": ["digits"] * k,
        "predictions": {name: [str(i) for i in range(k)] for name in models},
        "confidences": {name: np.linspace(0.1, 0.9, k) for name in models},
    }
    return input_strip_figure(**(arguments | changes))


def _texts(figure):
    """Everything written in the figure, wherever it belongs to."""
    return [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def _overlapping_texts(figure):
    """Pairs of strings whose boxes intersect once drawn."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    return [(a, b) for (a, box_a), (b, box_b) in combinations(boxes, 2) if box_a.overlaps(box_b)]


def _boxes(figure, kind):
    """Boxes of the images, or of the bars, in inches from left to right and from top to bottom."""
    figure.draw_without_rendering()
    axes = [axes for axes in figure.axes if getattr(axes, kind)]
    boxes = [place.get_window_extent().transformed(figure.dpi_scale_trans.inverted()) for place in axes]
    return sorted(boxes, key=lambda box: (-round(box.y1, 3), box.x0))


def test_input_strip__bars_show_each_confidence_in_the_model_colour():
    confidences = {"DNN": [0.9, 1.0, 0.25], "PNCA": [0.5, 0.125, 0.0]}
    figure = _strip(models=("DNN", "PNCA"), confidences=confidences)
    bars = [axes.patches[1] for axes in figure.axes if axes.patches]
    np.testing.assert_allclose([bar.get_width() for bar in bars], [*confidences["DNN"], *confidences["PNCA"]])
    colours = [to_hex(bar.get_facecolor()).upper() for bar in bars]
    assert colours == [MODEL_STYLES["DNN"].color] * 3 + [MODEL_STYLES["PNCA"].color] * 3


def test_input_strip__images_are_shown_in_order_on_one_grey_scale():
    images = np.stack([np.full((4, 4), level) for level in (0.0, 0.5, 2.0)])
    figure = _strip(images=images)
    shown = [axes.images[0] for axes in figure.axes if axes.images]
    np.testing.assert_array_equal([image.get_array() for image in shown], images)
    assert {image.get_clim() for image in shown} == {(0.0, 2.0)}


def test_input_strip__writes_groups_models_answers_and_captions():
    figure = _strip(
        group_names=["digits", "letters", "letters"],
        models=("PNCA",),
        predictions={"PNCA": ["seven", "8", "9"]},
        confidences={"PNCA": [0.426, 0.999, 1.0]},
        captions=["true: 7", "J", "B"],
    )
    written = sorted(text.get_text() for text in _texts(figure))
    assert written == sorted(
        ["digits", "letters", "PNCA", "true: 7", "J", "B", "seven", "8", "9", "43%", ">99%", "100%"]
    )


def test_input_strip__nan_confidence_draws_no_bar(tmp_path):
    figure = _strip(models=("PNCA",), confidences={"PNCA": [np.nan, 0.5, 0.5]})
    bars = [axes for axes in figure.axes if axes.patches]
    assert bars[0].patches[1].get_width() == 0
    assert bars[0].get_title(loc="right") == "?"
    save_figure(figure, tmp_path / "strip.png")


@pytest.mark.parametrize("label", ["7", "versicolor", "WWWWWWWWWWWW", ""])
def test_input_strip__no_text_runs_into_another(label):
    models = tuple(MODEL_STYLES)
    figure = _strip(
        k=6,
        models=models,
        group_names=["digits"] * 3 + ["rotated digits", "letters from elsewhere", "x"],
        predictions={name: [label] * 6 for name in models},
        confidences={name: np.ones(6) for name in models},
        captions=["true: 7"] * 6,
    )
    assert _overlapping_texts(figure) == []


def test_input_strip__everything_stays_inside_the_figure():
    figure = _strip(models=("A MODEL WITH A VERY LONG NAME", "PNCA"), captions=["true: 7"] * 3)
    figure.draw_without_rendering()
    for text in _texts(figure):
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros((8, 8))}, r"shape \(k, h, w\)"),
        ({"images": np.zeros((0, 8, 8))}, "at least 1"),
        ({"group_names": ["digits"]}, r"3 images.*'group_names': 1"),
        ({"captions": ["a", "b"]}, r"3 images.*'captions': 2"),
        ({"confidences": {"PNCA": [1, 1, 1]}}, "same models"),
        ({"predictions": {}, "confidences": {}}, "at least one"),
        ({"predictions": {"PNCA": ["1"], "DNN": ["1"] * 3}}, r"predictions\['PNCA'\].*1"),
        ({"confidences": {"PNCA": [1.0], "DNN": [1.0] * 3}}, r"confidences\['PNCA'\].*1"),
    ],
)
def test_input_strip__refuses_parts_that_disagree(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        _strip(**changes)


def test_input_strip__columns_do_not_overlap_and_groups_stand_apart():
    images = _boxes(_strip(k=4, group_names=["a", "a", "b", "b"]), "images")
    gaps = [right.x0 - left.x1 for left, right in pairwise(images)]
    assert min(gaps) > 0.1
    assert gaps[1] > gaps[0] + 0.2
    assert gaps[0] == pytest.approx(gaps[2], abs=0.02)


def test_input_strip__bars_stand_under_their_image_one_row_a_model():
    figure = _strip(k=2, models=("PNCA", "DNN", "BNN"), captions=["a", "b"])
    images, bars = _boxes(figure, "images"), _boxes(figure, "patches")
    assert len(bars) == 6
    for column, image in enumerate(images):
        below = bars[column::2]
        assert all(bar.x0 == pytest.approx(image.x0, abs=0.05) for bar in below)
        assert image.y0 > below[0].y1 > below[0].y0 > below[1].y1 > below[1].y0 > below[2].y1


def test_input_strip__equal_neighbours_share_a_heading():
    figure = _strip(k=4, group_names=["a", "a", "b", "a"])
    assert [text.get_text() for text in _texts(figure) if text.get_text() in "ab"] == ["a", "b", "a"]


def test_input_strip__a_long_heading_is_broken_into_lines_and_given_room():
    short, long = _strip(k=1, group_names=["digits"]), _strip(k=1, group_names=["digits by sixty degrees"])
    assert any(text.get_text().startswith("digits by\n") for text in _texts(long))
    assert long.get_figheight() > short.get_figheight()


def test_input_strip__long_names_captions_and_models_add_room():
    plain = _strip()
    assert _strip(models=("M" * 30, "DNN")).get_figwidth() > _strip(models=("i" * 30, "DNN")).get_figwidth()
    assert _strip(captions=["a"] * 3).get_figheight() > plain.get_figheight()
    assert _strip(models=("PNCA", "DNN", "BNN")).get_figheight() > plain.get_figheight()


@pytest.mark.parametrize(("k", "n_models"), [(1, 1), (3, 2), (9, 7)])
def test_input_strip__images_are_about_an_inch_wide_whatever_else_there_is(k, n_models):
    models = list(MODEL_STYLES)[:n_models]
    for image in _boxes(_strip(k=k, models=models, captions=["a"] * k), "images"):
        assert image.width == pytest.approx(image.height, abs=0.02)
        assert 0.9 < image.width < 1.15
