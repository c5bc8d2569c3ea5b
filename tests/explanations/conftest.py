import functools

import numpy as np
import pytest

from models import digits, make, noisy

X, Y = noisy()
IDS = np.array([f"p{row}" for row in range(40)])
#: What a page, a figure or a terminal must show as it is, and never run or choke on.
HOSTILE = "<script>alert('1')</script> & $x^2$ \u2603 \n {{ 7 * 7 }}"


def table():
    import pandas as pd

    ward = np.where(X[:, 1] > 1, HOSTILE, "y")
    return pd.DataFrame({"size": X[:, 0], HOSTILE: ward, "c": np.where(np.arange(40) % 5, X[:, 2], np.nan)})


@functools.cache
def explained(kind):
    """Two cases of a table, or of images, of one model each."""
    if kind == "images":
        images, y = digits()
        return make("PNCA", max_epochs=3, n_particles=4).fit(images, y).explain(images[:2] + 1, k=3)
    frame = table()
    names = np.array([HOSTILE, "b"])[Y]
    model = make("PNCA pooled", max_epochs=3, n_folds=2)
    model.fit(frame, names, groups=np.arange(40) // 2, ids=IDS)
    queries = frame[:2].copy()
    queries.loc[1, HOSTILE] = "new <b>"
    return model.explain(queries, k=4)


@pytest.fixture(scope="session", params=["table", "images"])
def cases(request):
    if request.param == "table":
        pytest.importorskip("pandas")
    return explained(request.param)


@pytest.fixture(scope="session")
def of_table():
    pytest.importorskip("pandas")
    return explained("table")
