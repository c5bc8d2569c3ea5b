from pathlib import Path

import pytest

from claim_worlds import make_run
from pnca_studies.reports import sections


@pytest.fixture
def drawn(monkeypatch):
    """Panels by figure title, kept instead of being drawn."""
    kept = {}

    def keep(panels, title, called=None):
        kept[title] = panels
        return title

    def save(title, path, formats):
        Path(path).write_text(title)
        return [Path(path)]

    monkeypatch.setattr(sections, "panels_figure", keep)
    monkeypatch.setattr(sections, "save_figures", save)
    return kept


@pytest.fixture(scope="session")
def worlds(tmp_path_factory):
    """A run of each study in which the claims of the paper hold."""
    folder = tmp_path_factory.mktemp("worlds")
    return {study: make_run(folder / study, study) for study in ("mnist", "ablation", "covid")}
