import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from pnca.exceptions import InvalidInputError, MissingExtraError
from pnca_studies.reports import (
    MODEL_STYLES,
    accuracy_vs_confidence_figure,
    count_vs_confidence_figure,
    input_strip_figure,
    save_figure,
    save_figures,
)

THRESHOLDS = np.linspace(0, 1, 21)


def _curves(names=tuple(MODEL_STYLES)):
    return {name: (THRESHOLDS, 0.62 + 0.3 * THRESHOLDS ** (1 + i)) for i, name in enumerate(names)}


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


@pytest.mark.parametrize(
    "draw",
    [
        lambda: accuracy_vs_confidence_figure(_curves(), ""),
        lambda: count_vs_confidence_figure(_curves(), "", 3),
        lambda: input_strip_figure(np.eye(8)[None], ["digits"], {"PNCA": ["7"]}, {"PNCA": [0.4]}),
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
    with pytest.raises(InvalidInputError, match=r"png, svg, pdf, but 'figure\.jpg' does not end"):
        save_figure(Figure(), tmp_path / "figure.jpg")


def test_save_figures__as_svg_and_pdf_are_the_same_files_each_time(tmp_path):
    curves = {"PNCA": (THRESHOLDS, np.linspace(0.5, 1, 21)), "DNN": (THRESHOLDS, np.full(21, np.nan))}
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        figure = accuracy_vs_confidence_figure(curves, "Right?")
        paths = save_figures(figure, folder / "f.png", ["svg", "pdf"])
        assert [path.name for path in paths] == ["f.png", "f.svg", "f.pdf"]
        found.append([path.read_bytes() for path in paths])
    assert found[0] == found[1]
    png, svg, pdf = found[0]
    assert (png[:4], pdf[:4]) == (b"\x89PNG", b"%PDF")
    # Text stays text, and of a model of which nothing is drawn the legend says nothing.
    assert b">PNCA<" in svg
    assert b"DNN" not in svg
