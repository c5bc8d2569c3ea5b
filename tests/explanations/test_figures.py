"""Figures show the numbers of the case."""

import builtins
import io
from dataclasses import replace

import numpy as np
import pytest

from pnca.exceptions import MissingExtraError
from pnca.explanations.drawing import Colours, as_png, as_shown, as_svg
from pnca.explanations.figures import draw_classes, draw_familiarity

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")


@pytest.fixture
def axes():
    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def test_classes__are_bars_as_long_as_their_parts(cases, axes):
    case = cases[0]
    draw_classes(axes, case, Colours())
    lengths = np.array([[bar.get_width() for bar in bars] for bars in axes.containers])
    order = np.argsort(-case.proba, kind="stable")
    np.testing.assert_allclose(lengths, np.stack([part[order] for part in case.parts.values()]))
    np.testing.assert_allclose(lengths.sum(axis=0), case.proba[order])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(case.parts)


@pytest.mark.parametrize("evidence", [None, -1e9, -np.inf, 1e9])
def test_familiarity__is_drawn_wherever_it_is(cases, axes, evidence):
    usual = cases[0].usual
    usual = usual._replace(evidence=np.median(usual.of_training) if evidence is None else evidence)
    draw_familiarity(axes, replace(cases[0], usual=usual), Colours())
    low, high = axes.get_xlim()
    place = axes.lines[0].get_xdata()[0]
    assert low < place < high
    assert ("beyond the scale" in axes.texts[0].get_text()) == (evidence is not None)


def test_familiarity__of_no_finite_evidence_is_drawn(cases, axes):
    usual = cases[0].usual
    usual = usual._replace(of_training=np.full_like(usual.of_training, -np.inf))
    draw_familiarity(axes, replace(cases[0], usual=usual), Colours())
    assert len(axes.lines) == 1


def test_page__has_all_parts(cases):
    figure = cases[1].plot()
    try:
        figure.canvas.draw()
        texts = [text.get_text() for text in figure.findobj(pyplot.Text)]
        assert any(text.startswith("Case 1: predicted") for text in texts)
        assert any("particles name" in text for text in texts)
        pictures = sum(len(axes.images) for axes in figure.findobj(pyplot.Axes))
        assert (pictures >= 6) == cases[1].is_picture
    finally:
        pyplot.close(figure)


def test_svg__is_the_same_for_the_same_case(cases):
    first, again = (as_svg(draw_classes, cases[0], (4, 2), mark="a") for _ in range(2))
    assert first == again
    assert first.startswith("<svg")
    assert "<text" in first  # not paths


def test_picture__in_colour_and_grey():
    grey = as_shown(np.array([[0, 16], [8, 4]]), (0, 16))
    np.testing.assert_allclose(grey, [[0, 1], [0.5, 0.25]])
    assert as_shown(np.ones((2, 2, 4)), (0, 1)).shape == (2, 2, 3)
    assert as_shown(np.ones((2, 2)), (1, 1)).max() == 0
    for picture in (grey, np.ones((2, 2, 3))):
        assert as_png(picture).startswith(b"\x89PNG")
    large = pyplot.imread(io.BytesIO(as_png(np.zeros((1000, 500)))))
    assert large.shape[:2] == (334, 167)


def test_figures__without_matplotlib_name_the_extra(cases, monkeypatch):
    original = builtins.__import__

    def without(name, *others, **more):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pnca\[plots\]"):
        cases[0].plot()
