import numpy as np

from benchmark_runs import FEW, document, results
from pnca_studies.reports.benchmark import curves, curves_figure
from pnca_studies.reports.benchmark.measures import NLL


def test_curves__over_a_logarithmic_axis():
    sizes = (50, 100, 400)
    given = results(places=[("digits", n) for n in sizes])
    figure = curves_figure(given, "digits", sizes)
    assert figure.get_suptitle() == "digits"
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        assert [text.get_text() for text in axes.get_xticklabels()] == ["50", "100", "400"]
        assert axes.get_xlim()[0] < 50 < 400 < axes.get_xlim()[1]
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), sizes)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), 0.895)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0] == "PNCA"
    assert len(names) == 7
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert not any(axes.get_tightbbox().overlaps(box) for axes in figure.axes)


def test_curves__a_model_may_lack_a_size():
    given = results(places=[("digits", 50), ("digits", 100)], models=FEW)
    part = results(places=[("digits", 50)], models=FEW)
    assert curves._lines(given, "digits", (50, 100), "k-NN", NLL).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    lines = curves._lines(part, "digits", (50, 100), "k-NN", NLL)
    np.testing.assert_array_equal(lines, [[0.5, np.nan], [0.5, np.nan]])
    assert curves._lines(part, "digits", (50, 100), "SNGP", NLL).shape == (0, 2)


def test_curves__need_two_sizes(tmp_path):
    text = document(tmp_path, places=[("digits", 100)], models=FEW)
    assert "Learning curves" not in text
    assert not (tmp_path / "run" / "digits.png").exists()
