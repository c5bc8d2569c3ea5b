import subprocess
import sys

import pytest

from pnca.exceptions import MissingExtraError
from pnca_studies.reports import MODEL_STYLES, styles_for
from pnca_studies.reports.style import new_figure, text_width


def test_model_styles__colours_and_markers_are_all_different():
    assert set(MODEL_STYLES) == {"PNCA", "PNCA (paper)", "NCA", "DNN", "BNN", "BNN as published", "Ensemble"}
    for field in ("color", "marker"):
        assert len({getattr(style, field) for style in MODEL_STYLES.values()}) == len(MODEL_STYLES)


def test_model_styles__pnca_is_the_most_prominent():
    others = [style for name, style in MODEL_STYLES.items() if name != "PNCA"]
    assert all(MODEL_STYLES["PNCA"].linewidth > style.linewidth for style in others)
    assert all(MODEL_STYLES["PNCA"].zorder > style.zorder for style in others)


def test_model_styles__cannot_be_changed():
    with pytest.raises(TypeError):
        MODEL_STYLES["PNCA"] = MODEL_STYLES["NCA"]


def test_styles_for__known_names_keep_their_style_in_any_company():
    styles = styles_for(["mine", "Ensemble", "yours", "PNCA"])
    assert list(styles) == ["mine", "Ensemble", "yours", "PNCA"]
    assert styles["Ensemble"] is MODEL_STYLES["Ensemble"]
    assert styles["PNCA"] is MODEL_STYLES["PNCA"]


def test_styles_for__unknown_names_get_free_styles():
    styles = styles_for([*MODEL_STYLES, "a", "b", "c", "d"])
    assert len({style.marker for style in styles.values()}) == len(styles)


def test_styles_for__more_unknown_names_than_spare_styles_still_get_one():
    assert len(styles_for([f"model {i}" for i in range(20)])) == 20


def test_text_width__agrees_with_a_drawn_text():
    figure = new_figure(4, 1)
    drawn = figure.text(0, 0, "PNCA (paper)", fontsize=10)
    inches = drawn.get_window_extent().width / figure.dpi
    # Drawing rounds to whole pixels and hints glyphs: a few per cent at this size.
    assert text_width("PNCA (paper)", 10) == pytest.approx(inches, rel=0.05)


@pytest.mark.parametrize("call", [lambda: new_figure(1, 1), lambda: text_width("a", 10)])
def test_style__names_the_extra_when_matplotlib_is_missing(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[plots\]"):
        call()


def test_reports__import_does_not_load_matplotlib():
    code = "import sys, pnca_studies.reports; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
