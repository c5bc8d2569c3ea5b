"""Files of every format that there was load, and their models answer as they did."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import pnca
from persistence import stored
from pnca.persistence.container import FORMAT

FILES = sorted(Path(__file__).parent.glob("format_*/*.pnca"))


def test_formats__have_all_their_files():
    assert {path.parent.name for path in FILES} == {f"format_{number}" for number in range(1, FORMAT + 1)}
    assert {path.stem for path in FILES} >= set(stored.models())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_stored_file__answers_as_it_did(path):
    if path.stem in ("table", "record"):
        pytest.importorskip("pandas")
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the version of scikit-learn
        model = pnca.load(path)
    found = stored.answers(model, path.stem)
    assert found.keys() == expected.keys()
    for name in ("labels", "neighbors"):
        assert found.get(name) == expected.get(name)
    for name in expected.keys() - {"labels", "neighbors"}:
        # Another version of torch may round another way.
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-7, atol=1e-9, err_msg=name)


def test_stored_record__is_what_the_fit_was_given():
    pytest.importorskip("pandas")
    table, others = stored.recorded()
    found = pnca.load(Path(__file__).parent / "format_1" / "record.pnca").record_
    # Not by type: another version of pandas has another one for text, and another unit for dates.
    there = [part.astype(object).where(part.notna(), "hole") for part in (found.inputs, table)]
    assert there[0].to_dict() == there[1].to_dict()
    assert found.ids.tolist() == others["ids"]
    assert found.groups.tolist() == others["groups"].tolist()
    assert found.labels.tolist() == stored.examples()[1].tolist()
