from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pnca.exceptions import InvalidInputError
from pnca_studies.reports import MODEL_STYLES, save_figure
from pnca_studies.reports.panels import Panel, panels_figure

X = np.array([0.0, 0.5, 1.0])
NAN = np.nan


def _panel(lines, **changes):
    arguments = {"title": "a panel", "x": X, "lines": lines, "x_label": "x", "y_label": "y"}
    return Panel(**(arguments | changes))


def _line_and_band(lines):
    """The mean drawn, and the lower and upper end of its band at each x (NaN where there is none)."""
    axes = panels_figure([_panel({"PNCA": np.array(lines)})], "").axes[0]
    ends = np.full((2, len(X)), NAN)
    for path in axes.collections[0].get_paths():
        for i, x in enumerate(X):
            if len(ys := path.vertices[path.vertices[:, 0] == x, 1]):
                ends[:, i] = ys.min(), ys.max()
    return axes.lines[0].get_ydata(), *ends


def test_panel__line_is_the_mean_and_band_one_standard_deviation():
    lines = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.6], [0.2, 0.2, 0.9]]
    mean, low, high = _line_and_band(lines)
    np.testing.assert_allclose(mean, [0.2, 0.2, 0.6])
    sd = np.std(lines, axis=0, ddof=1)
    np.testing.assert_allclose(low, mean - sd)
    np.testing.assert_allclose(high, mean + sd)


def test_panel__nan_is_left_out_of_mean_and_band():
    mean, low, high = _line_and_band([[0.1, NAN, 0.3], [0.3, 0.2, 0.3], [0.2, 0.4, 0.3]])
    np.testing.assert_allclose(mean, [0.2, 0.3, 0.3])
    sd = np.sqrt(0.02)  # of .2 and .4
    np.testing.assert_allclose((low[1], high[1]), (0.3 - sd, 0.3 + sd))


def test_panel__a_point_needs_half_of_the_repetitions():
    four = np.full((4, 3), 0.5)
    four[:2, 1] = NAN  # two of four have a value: drawn
    four[:3, 2] = NAN  # one of four: not drawn
    mean, low, _ = _line_and_band(four)
    np.testing.assert_allclose(mean, [0.5, 0.5, NAN])
    assert np.isnan(low[2])


@pytest.mark.parametrize("n", [1, 2])
def test_panel__of_one_or_two_repetitions_a_line_is_drawn_and_no_band(n):
    (axes,) = panels_figure([_panel({"DNN": np.array([[0.1, 0.2, 0.3]] * n)})], "").axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.1, 0.2, 0.3])
    assert not axes.collections


def test_panels__the_legend_has_what_is_drawn_by_the_names_that_readers_know():
    lines = {"PNCA": np.ones((3, 3)), "NCA": np.full((3, 3), NAN), "exact": np.ones((3, 3))}
    figure = panels_figure([_panel(lines)], "", called={"exact": "exact kernel"})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["PNCA", "exact kernel"]


def test_panel__ticks_are_where_they_are_wanted():
    panel = replace(_panel({"DNN": np.ones((3, 3))}), ticks=[0.0, 0.5])
    (axes,) = panels_figure([panel], "").axes
    assert axes.get_xticks().tolist() == [0.0, 0.5]


def test_panel__nothing_but_nan_or_no_repetition_still_draws(tmp_path):
    lines = {"PNCA": np.full((2, 3), NAN), "NCA": np.empty((0, 3)), "DNN": np.ones((2, 3))}
    figure = panels_figure([_panel(lines)], "")
    for line in figure.axes[0].lines[:2]:
        assert np.isnan(line.get_ydata()).all()
    save_figure(figure, tmp_path / "nan.png")


def test_panels__titles_labels_and_range():
    panels = [_panel({"PNCA": np.ones((1, 3))}, title=t, y_range=(-1, 3)) for t in ("first", "second")]
    figure = panels_figure(panels, "the figure")
    assert figure.get_suptitle() == "the figure"
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["first", "second"]
    for axes in figure.axes:
        assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_ylim()) == ("x", "y", (-1, 3))


@pytest.mark.parametrize(
    ("n_panels", "n_columns", "shape"), [(1, 3, (1, 1)), (3, 3, (1, 3)), (4, 3, (2, 3)), (5, 2, (3, 2))]
)
def test_panels__fill_rows_and_leave_the_rest_blank(n_panels, n_columns, shape):
    figure = panels_figure([_panel({"PNCA": np.ones((1, 3))})] * n_panels, "", n_columns=n_columns)
    assert figure.axes[0].get_gridspec().get_geometry() == shape
    assert [axes.axison for axes in figure.axes] == [i < n_panels for i in range(shape[0] * shape[1])]


def test_panels__one_legend_names_every_model_of_any_panel_once():
    panels = [
        _panel({"DNN": np.ones((1, 3)), "PNCA": np.ones((1, 3))}),
        _panel({"PNCA": np.ones((1, 3)), "NCA": np.ones((1, 3))}),
    ]
    (legend,) = panels_figure(panels, "").legends
    assert [text.get_text() for text in legend.get_texts()] == ["DNN", "PNCA", "NCA"]
    colours = [line.get_color() for line in legend.get_lines()]
    assert colours == [MODEL_STYLES[name].color for name in ("DNN", "PNCA", "NCA")]


@pytest.mark.parametrize(
    ("n_panels", "names"),
    [
        (1, ["PNCA (paper)", "30 d features", "exact + background .01", "exact + background .1"]),
        (1, ["exact + background .1 independent", "exact + background .1", "exact independent"]),
        (1, ["h=1", "h=2", "PNCA (paper)", "h=16", "exact h=1", "exact h=2", "exact", "exact h=16"]),
        (3, list(MODEL_STYLES)),
        (9, list(MODEL_STYLES)),
    ],
)
def test_panels__legend_and_title_stay_inside_the_figure(n_panels, names):
    panels = [_panel({name: np.ones((1, 3)) for name in names})] * n_panels
    figure = panels_figure(panels, "A title")
    figure.draw_without_rendering()
    legend, title = figure.legends[0].get_window_extent(), figure._suptitle.get_window_extent()
    assert not any(axes.get_tightbbox().overlaps(box) for axes in figure.axes for box in (legend, title))
    for box in (legend, title):
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_panels__a_model_keeps_its_style_and_its_band_has_its_colour():
    panels = [_panel({"DNN": np.ones((3, 3)), "BNN": np.ones((3, 3))}), _panel({"BNN": np.ones((3, 3))})]
    for axes in panels_figure(panels, "").axes:
        for line, band in zip(axes.lines, axes.collections, strict=True):
            style = MODEL_STYLES[line.get_label()]
            assert (line.get_color(), line.get_marker()) == (style.color, style.marker)
            np.testing.assert_allclose(band.get_facecolor()[0, :3], _rgb(style.color))


def _rgb(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def test_panels__saved_picture_has_the_colours_of_its_lines(tmp_path):
    lines = {"PNCA": np.array([[0.2, 0.5, 0.8]]), "DNN": np.array([[0.9, 0.5, 0.1]])}
    path = save_figure(panels_figure([_panel(lines)], ""), tmp_path / "figure.png")
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3) / 255
    for name in lines:
        distances = abs(pixels - _rgb(MODEL_STYLES[name].color)).max(axis=1)
        assert (distances < 0.02).sum() > 300  # a line across the axes is some 400 pixels long, 3 wide


@pytest.mark.parametrize("panels", [[], [_panel({})]])
def test_panels__refuse_a_figure_of_nothing(panels):
    with pytest.raises(InvalidInputError, match="at least one panel with one line"):
        panels_figure(panels, "")
