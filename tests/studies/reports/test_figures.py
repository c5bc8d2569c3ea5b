import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from pnca.exceptions import InvalidInputError, MissingExtraError
from pnca_studies.reports import (
    MODEL_STYLES,
    accuracy_vs_confidence_figure,
    count_vs_confidence_figure,
    input_strip_figure,
    save_figure,
)

THRESHOLDS = np.linspace(0, 1, 21)


def _curves(names=tuple(MODEL_STYLES)):
    return {name: (THRESHOLDS, 0.62 + 0.3 * THRESHOLDS ** (1 + i)) for i, name in enumerate(names)}


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
    return [text for axes in figure.axes for text in axes.texts] + figure.texts


def _overlapping_texts(figure):
    """Pairs of strings whose boxes intersect once drawn."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    return [(a, b) for (a, box_a), (b, box_b) in combinations(boxes, 2) if box_a.overlaps(box_b)]


@pytest.mark.parametrize(
    "draw", [accuracy_vs_confidence_figure, lambda c, t: count_vs_confidence_figure(c, t, 5)]
)
def test_curves__lines_are_the_data_given(draw):
    curves = _curves()
    lines = draw(curves, "a title").axes[0].lines
    assert [line.get_label() for line in lines] == list(curves)
    for line, (thresholds, values) in zip(lines, curves.values(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), thresholds)
        np.testing.assert_array_equal(line.get_ydata(), values)


def test_curves__style_follows_the_name_not_the_position():
    for names in (["PNCA", "NCA", "DNN"], ["DNN", "unheard of", "PNCA"]):
        for line in accuracy_vs_confidence_figure(_curves(names), "").axes[0].lines:
            if line.get_label() in MODEL_STYLES:
                style = MODEL_STYLES[line.get_label()]
                assert line.get_color() == style.color
                assert line.get_marker() == style.marker
                assert line.get_linestyle() == style.linestyle


def test_curves__title_and_axes_are_labelled():
    figure = accuracy_vs_confidence_figure(_curves(), "Rotated digits")
    assert figure.get_suptitle() == "Rotated digits"
    assert figure.axes[0].get_xlabel() == "confidence threshold τ"
    assert figure.axes[0].get_ylabel() == "accuracy where confidence ≥ τ"


def test_curves__legend_and_long_title_stay_clear_of_the_axes():
    figure = count_vs_confidence_figure(_curves(), "a rather long title " * 5, 1697)
    figure.draw_without_rendering()
    axes_box, legend_box = figure.axes[0].get_tightbbox(), figure.legends[0].get_window_extent()
    title_box = figure._suptitle.get_window_extent()
    assert not axes_box.overlaps(legend_box)
    assert not axes_box.overlaps(title_box)
    assert not legend_box.overlaps(title_box)
    assert title_box.x1 <= figure.bbox.x1


def test_curves__nan_leaves_a_gap_without_a_warning(tmp_path):
    values = np.full(21, np.nan)
    partly = np.where(THRESHOLDS > 0.8, np.nan, 0.75)
    figure = accuracy_vs_confidence_figure({"PNCA": (THRESHOLDS, values), "NCA": (THRESHOLDS, partly)}, "")
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), partly)
    save_figure(figure, tmp_path / "nan.png")


def test_curves__nothing_but_nan_still_draws(tmp_path):
    figure = accuracy_vs_confidence_figure({"PNCA": (THRESHOLDS, np.full(21, np.nan))}, "")
    assert figure.axes[0].get_ylim()[0] == 0
    save_figure(figure, tmp_path / "nan.png")


@pytest.mark.parametrize(("lowest", "floor"), [(0.0, 0.0), (0.05, 0.0), (0.62, 0.6), (0.97, 0.9), (1.0, 0.9)])
def test_accuracy_figure__axis_starts_at_the_tenth_below(lowest, floor):
    figure = accuracy_vs_confidence_figure({"PNCA": ([0.0, 1.0], [lowest, 1.0])}, "")
    assert figure.axes[0].get_ylim()[0] == pytest.approx(floor)


def test_count_figure__right_axis_is_the_share_of_the_total():
    figure = count_vs_confidence_figure({"PNCA": ([0.0, 1.0], [250, 0])}, "", 250)
    figure.draw_without_rendering()
    (share,) = figure.axes[0].child_axes
    assert share.get_ylabel() == "% of all 250 examples"
    np.testing.assert_allclose(share.get_ylim(), np.multiply(figure.axes[0].get_ylim(), 100 / 250))


def test_curves__refuse_arrays_that_do_not_pair_up():
    with pytest.raises(InvalidInputError, match=r"'NCA'.*\(3,\) and \(2,\)"):
        accuracy_vs_confidence_figure({"NCA": ([0, 0.5, 1], [1, 1])}, "")


def test_curves__refuse_an_empty_figure():
    with pytest.raises(InvalidInputError, match="at least one model"):
        accuracy_vs_confidence_figure({}, "")


def test_count_figure__refuses_a_total_of_nothing():
    with pytest.raises(InvalidInputError, match="n_total"):
        count_vs_confidence_figure(_curves(), "", 0)


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
    assert bars[0].texts[1].get_text() == "?"
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


@pytest.mark.parametrize(
    "draw",
    [
        lambda: accuracy_vs_confidence_figure(_curves(), ""),
        lambda: count_vs_confidence_figure(_curves(), "", 3),
        _strip,
    ],
)
def test_figures__name_the_extra_when_matplotlib_is_missing(monkeypatch, draw):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[plots\]"):
        draw()


def test_figures__never_load_pyplot(tmp_path):
    code = (
        "import sys; from pnca_studies.reports import *;"
        "figure = count_vs_confidence_figure({'PNCA': ([0, 1], [3, 0])}, '', 3);"
        "save_figure(figure, sys.argv[1]); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "figure.png"], check=True)


def test_save_figure__writes_a_png_at_150_dpi_and_nothing_else(tmp_path):
    path = save_figure(Figure(figsize=(2, 1)), str(tmp_path / "figure.png"))
    assert list(tmp_path.iterdir()) == [path]
    with Image.open(path) as picture:
        assert (picture.format, picture.size) == ("PNG", (300, 150))


def test_save_figure__replaces_an_earlier_file(tmp_path):
    path = tmp_path / "figure.png"
    path.write_bytes(b"earlier")
    save_figure(Figure(figsize=(1, 1)), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_save_figure__a_failure_keeps_the_earlier_file_and_leaves_no_trace(tmp_path, monkeypatch):
    def fail_half_way(figure, file, **_):
        file.write_bytes(b"half a picture")
        raise OSError("disk full")

    path = tmp_path / "figure.png"
    path.write_bytes(b"earlier")
    monkeypatch.setattr(Figure, "savefig", fail_half_way)
    with pytest.raises(OSError, match="disk full"):
        save_figure(Figure(), path)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_save_figure__same_permissions_as_any_new_file(tmp_path):
    other = tmp_path / "other"
    other.touch()
    path = save_figure(Figure(figsize=(1, 1)), tmp_path / "figure.png")
    assert path.stat().st_mode == other.stat().st_mode


def test_save_figure__refuses_another_format(tmp_path):
    with pytest.raises(InvalidInputError, match=r"'figure\.pdf' does not end in '\.png'"):
        save_figure(Figure(), tmp_path / "figure.pdf")
