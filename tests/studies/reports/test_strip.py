import numpy as np
import pytest

from pnca_studies.reports.strip import CELL, EDGE, StripLayout


def _layout(groups, models=("PNCA",), *, has_captions=False):
    return StripLayout.of(groups, models, has_captions=has_captions)


def test_strip_layout__columns_do_not_overlap_and_groups_stand_apart():
    strip = _layout(["a", "a", "b", "b"])
    gaps = np.diff(strip.lefts) - CELL
    assert (gaps > 0).all()
    assert gaps[1] > gaps[0]
    assert gaps[0] == pytest.approx(gaps[2])


def test_strip_layout__equal_neighbours_share_a_heading():
    strip = _layout(["a", "a", "b", "a"])
    assert [group.heading for group in strip.groups] == ["a", "b", "a"]
    assert [len(group.lefts) for group in strip.groups] == [2, 1, 1]


def test_strip_layout__long_heading_is_broken_into_lines_and_given_room():
    short, long = _layout(["digits"]), _layout(["digits rotated by sixty degrees"])
    assert long.groups[0].heading.count("\n") >= 1
    assert long.images_top > short.images_top


def test_strip_layout__long_model_names_widen_the_left_margin():
    assert _layout(["a"], ["M" * 30]).lefts[0] > _layout(["a"], ["i" * 30]).lefts[0]


def test_strip_layout__captions_and_models_add_height():
    plain = _layout(["a"])
    assert _layout(["a"], has_captions=True).height > plain.height
    assert _layout(["a"], ["PNCA", "DNN"]).height > plain.height


def test_strip_layout__corners_map_to_figure_coordinates():
    strip = _layout(["a", "b"])
    assert strip.point(0, 0) == (0, 1)
    assert strip.point(strip.width, strip.height) == (1, 0)


def test_strip_layout__last_cell_ends_one_margin_before_the_edge():
    strip = _layout(["a", "b"])
    left, _, width, _ = strip.box(strip.lefts[-1], strip.images_top, CELL)
    assert (left + width) * strip.width == pytest.approx(strip.width - EDGE)
