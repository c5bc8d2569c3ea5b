"""Figures show the numbers, and say them to a screen reader."""

import numpy as np
import pytest

from pnca.explanations.drawing import Colours
from pnca.reports import figures, pages
from reports.conftest import evaluated

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")


@pytest.fixture
def axes():
    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def test_reliability__has_a_point_for_each_bin(evaluation, axes):
    figures.draw_reliability(axes, evaluation, Colours())
    (points,) = [found for found in axes.collections if len(found.get_offsets()) == len(evaluation.bins)]
    expected = [[found.confidence, found.accuracy.value] for found in evaluation.bins]
    np.testing.assert_allclose(points.get_offsets(), expected)


def test_risk__marks_the_operating_point(evaluation, axes):
    figures.draw_risk(axes, evaluation, Colours())
    curve = axes.lines[0]
    np.testing.assert_allclose(curve.get_ydata(), evaluation.risk.values)
    marked = [line.get_xydata()[0].tolist() for line in axes.lines if len(line.get_xdata()) == 1]
    assert [evaluation.point.coverage, evaluation.point.error.value] in marked


def test_risk__without_answers_has_no_operating_point(axes):
    figures.draw_risk(axes, evaluated(max_error=0.001), Colours())
    assert "operating point" not in " ".join(text.get_text() for text in axes.get_legend().get_texts())


def test_familiarity__is_a_histogram_of_each_kind(evaluation, axes):
    parts = [("a", np.full(7, 0.01)), ("b", np.linspace(0, 1, 40))]
    figures.draw_familiarity(axes, figures.Familiarities(parts, 0.05), Colours())
    first, second = axes.containers
    assert [bar.get_height() for bar in first] == [1.0] + [0.0] * 19
    assert len({bar.get_height() for bar in second}) <= 2
    assert axes.lines[-1].get_xdata()[0] == 0.05


@pytest.mark.parametrize("name", ["reliability", "risk"])
def test_figure__says_its_title_and_has_its_numbers_beside_it(evaluation, name):
    part = getattr(pages, name)(evaluation)
    assert part["svg"].startswith("<svg")
    assert f'<title id="{name}-title">{part["title"]}</title>' in part["svg"]
    assert 'role="img"' in part["svg"]
    head, rows = part["table"]
    assert all(len(row) == len(head) for row in rows)
    assert pages.reliability(evaluation, mark="other")["svg"].count('id="other-title"') == 1


def test_figures__of_extreme_values_can_be_drawn(axes):
    e = evaluated(n=1)
    for draw in (figures.draw_reliability, figures.draw_risk):
        draw(axes, e, Colours())
    figures.draw_accuracy_by_confidence(axes, e.accuracy_by_confidence, Colours())
    figures.draw_count_by_confidence(axes, e.count_by_confidence, Colours())
    axes.figure.canvas.draw()
