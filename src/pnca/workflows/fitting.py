"""Fit a model on a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pnca.tables.examples import LabelledTable

if TYPE_CHECKING:
    from pnca.estimators import PNCAClassifier


def fit_table(
    examples: LabelledTable, *, codes: tuple[str, ...] = (), seed: int = 0, verbose: bool = False
) -> PNCAClassifier:
    """Fit the default model on the examples of a table; it remembers how the table was read.

    Parameters
    ----------
    examples : LabelledTable
        From :func:`pnca.tables.read_examples`.
    codes : tuple of str
        Columns of numbers that are names of categories.
    seed : int
        Of the fit.
    verbose : bool
        Whether progress is shown.

    Returns
    -------
    PNCAClassifier
        Fitted, with ``source_``.
    """
    from pnca.estimators import PNCAClassifier

    model = PNCAClassifier(random_state=seed, categorical_features=list(codes) or None, verbose=verbose)
    ids = examples.rows if examples.ids is None else examples.ids
    model.fit(examples.X, examples.y, groups=examples.groups, ids=ids)
    model.source_ = examples.source
    model.set_params(verbose=False)
    return model
