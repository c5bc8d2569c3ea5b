"""Several models on the same examples, each predicted out of fold: values from arrays, and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.evaluation import auroc_contributions, mean_interval
from pnca.explanations.text import in_columns
from pnca.reports.values import FloatArray, IntArray, Interval
from pnca.reports.words import UNKNOWN, number, percent

#: The models that sentences are about.
DEFAULT, LOGISTIC, SHARES = "pnca (default)", "logistic regression", "class shares"
#: Probabilities are clipped as in the NLL of :mod:`pnca.evaluation`.
_LEAST = float(np.finfo(np.float64).eps)


class ModelScores(NamedTuple):
    """How one model does, and how it differs from the default."""

    name: str
    accuracy: float
    nll: float
    auroc: float  # NaN where all labels are of one class
    accuracy_difference: Interval | None  # this model minus the default; None of the default itself
    nll_difference: Interval | None
    auroc_difference: Interval | None
    nll_below_shares: Interval | None  # the class shares minus this model; None of the shares themselves
    seconds: float  # of a fit with all that belongs to it


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Models compared on the same examples, by the same folds.

    Attributes
    ----------
    n : int
        Examples.
    n_groups : int or None
        Groups, if some were named.
    n_folds, n_repeats : int
        Folds, and how often they were dealt.
    models : tuple of ModelScores
        The default first.
    failed : dict
        Models that could not be fitted, and why.
    """

    n: int
    n_groups: int | None
    n_folds: int
    n_repeats: int
    models: tuple[ModelScores, ...]
    failed: Mapping[str, str]

    def of(self, name: str) -> ModelScores | None:
        """The scores of a model by its name, if it is there."""
        return next((model for model in self.models if model.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "n": self.n,
            "n_groups": self.n_groups,
            "n_folds": self.n_folds,
            "n_repeats": self.n_repeats,
            "models": [_as_dict(model) for model in self.models],
            "failed": dict(self.failed),
            "verdict": verdict(self),
        }


def compare_predictions(
    predictions: Mapping[str, FloatArray],
    labels: IntArray,
    folds: IntArray,
    seconds: Mapping[str, float],
    *,
    groups: IntArray | None = None,
    failed: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare models by their predictions of the same examples.

    A model's loss of an example is averaged over the repeats, and AUROC is that within folds: probabilities
    of different fits are not ranked together. Intervals are of the mean over examples (with groups, over
    groups) of the differences from the default.

    Parameters
    ----------
    predictions : mapping of str to ndarray of shape (r, n, c)
        Class probabilities of n examples out of fold in each of r repeats, by model; the default is one.
    labels : ndarray of int, shape (n,)
        Positions of the classes.
    folds : ndarray of int, shape (r, n)
        The fold in which an example was left out.
    seconds : mapping of str to float
        What a fit took.
    groups : ndarray of int, shape (n,), optional
        Equal for examples that are not independent.
    failed : mapping, optional
        Models that could not be fitted, and why.

    Returns
    -------
    Comparison
    """
    losses = {name: _losses(proba, labels, folds) for name, proba in predictions.items()}

    def differences(name: str, other: str, sign: float = 1.0) -> list[Interval | None]:
        if name == other or other not in losses:
            return [None] * 3
        pairs = zip(losses[name], losses[other], strict=True)
        return [_interval(sign * (own - its), groups) for own, its in pairs]

    models = []
    for name, (correct, nll, auroc) in losses.items():
        below = differences(name, SHARES, -1.0)[1]
        accuracies, nlls, aurocs = differences(name, DEFAULT)
        models.append(
            ModelScores(
                name=name,
                accuracy=float(correct.mean()),
                nll=float(nll.mean()),
                auroc=float(np.nanmean(auroc)) if np.isfinite(auroc).any() else float("nan"),
                accuracy_difference=accuracies,
                nll_difference=nlls,
                auroc_difference=aurocs,
                nll_below_shares=below,
                seconds=seconds[name],
            )
        )
    return Comparison(
        n=len(labels),
        n_groups=None if groups is None else len(np.unique(groups)),
        n_folds=int(folds.max()) + 1,
        n_repeats=len(folds),
        models=tuple(models),
        failed=failed or {},
    )


def verdict(comparison: Comparison) -> list[str]:
    """What follows, in plain sentences.

    Parameters
    ----------
    comparison : Comparison
        The models.
    """
    found = []
    better = [m for m in comparison.models if m.nll_below_shares is not None and m.nll_below_shares.low > 0]
    if comparison.of(SHARES) is not None and not better:
        return [
            "Nothing beats the class shares: of no model is the NLL surely lower than theirs. As far as "
            f"these {comparison.n} examples show, the columns say nothing about the class."
        ]
    if (line := comparison.of(LOGISTIC)) is not None:
        found.append(_of_line(line, comparison))
    above = [m for m in comparison.models if m.nll_difference is not None and m.nll_difference.high < 0]
    if above:
        names = ", ".join(f"{m.name} (NLL {signed(m.nll_difference)})" for m in above)
        found.append(f"Surely lower than that of the default is the NLL of {names}.")
    else:
        found.append("Of no other model is the NLL surely lower than that of the default.")
    return found


def _of_line(line: ModelScores, comparison: Comparison) -> str:
    """Whether logistic regression does as well as the default."""
    nll, accuracy = line.nll_difference, line.accuracy_difference
    assert nll is not None
    assert accuracy is not None
    differences = f"its NLL is {signed(nll)} and its accuracy {points(accuracy)} percentage points"
    said = f"Relative to the default {differences}."
    if nll.low > 0 or accuracy.high < 0:
        worse = ["its NLL is"] * (nll.low > 0) + ["its accuracy is"] * (accuracy.high < 0)
        return f"Logistic regression is not enough: {' and '.join(worse)} surely worse. {said}"
    if nll.high < 0:
        return f"Logistic regression is enough: its NLL is surely better. {said}"
    return (
        f"Logistic regression is enough: with {comparison.n} examples neither its NLL nor its accuracy is "
        f"shown to be worse. {said} What it lacks is familiarity, and answers with a promise."
    )


def signed(interval: Interval | None, digits: int = 3) -> str:
    """A difference with its interval, and nothing where there is none.

    >>> signed(Interval(0.0123, -0.003, 0.027))
    '+0.012 (-0.003 to +0.027)'
    """
    if interval is None:
        return ""
    middle, low, high = (f"{end:+.{digits}f}" for end in interval)
    return UNKNOWN if interval.value != interval.value else f"{middle} ({low} to {high})"


def points(interval: Interval | None) -> str:
    """A difference of shares in percentage points, with its interval."""
    return signed(None if interval is None else Interval(*(100 * end for end in interval)), 1)


def comparison_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Scores of each model: head and rows."""
    differences = ["accuracy, points", "NLL, difference", "AUROC, difference"]
    head = ["model", "accuracy", "NLL", "AUROC", *differences]
    rows = [
        [
            model.name,
            percent(model.accuracy),
            f"{model.nll:.3f}",
            number(model.auroc),
            points(model.accuracy_difference),
            signed(model.nll_difference),
            signed(model.auroc_difference),
            f"{model.seconds:.1f}",
        ]
        for model in comparison.models
    ]
    return [*head, "seconds"], rows


def _losses(
    proba: FloatArray, labels: IntArray, folds: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Whether an example is right, its NLL, and what it contributes to the AUROC: (n,) each, over repeats.

    The last is NaN of an example that was in folds of one class alone.
    """
    of_truth = proba[:, np.arange(len(labels)), labels].clip(_LEAST, 1 - _LEAST)
    correct = (proba.argmax(axis=2) == labels).mean(axis=0)
    aurocs = np.zeros(labels.shape)
    for part, own in zip(proba, folds, strict=True):
        for fold in np.unique(own):
            rows = own == fold
            aurocs[rows] += auroc_contributions(labels[rows], part[rows]) / len(folds)
    return correct, -np.log(of_truth).mean(axis=0), aurocs


def _interval(values: NDArray[np.float64], groups: IntArray | None) -> Interval:
    known = np.isfinite(values)
    if not known.any():
        return Interval(*[float("nan")] * 3)
    return Interval(*mean_interval(values[known], None if groups is None else groups[known]))


def _as_dict(model: ModelScores) -> dict[str, Any]:
    return {
        name: value._asdict() if isinstance(value, Interval) else None if value != value else value
        for name, value in model._asdict().items()
    }


def how(comparison: Comparison) -> str:
    """How it was measured, in a sentence or two."""
    c = comparison
    of_groups = "" if c.n_groups is None else f" in {c.n_groups} groups, which are kept together"
    return (
        f"{c.n} examples{of_groups}; {c.n_folds} folds, dealt {c.n_repeats} time{'s' * (c.n_repeats != 1)}. "
        "Differences are from the default (of accuracy in percentage points), with 95 % intervals over the "
        f"{'examples' if c.n_groups is None else 'groups'}; what other training examples would change they "
        "do not show. Logistic regression, forest and boosting have a temperature of their own; seconds "
        "are of one fit."
    )


def comparison_lines(comparison: Comparison) -> list[str]:
    """The comparison for a terminal."""
    lines = [in_columns(*comparison_table(comparison)), "", how(comparison)]
    lines += [f"{name} could not be fitted: {why}" for name, why in comparison.failed.items()]
    return [*lines, *verdict(comparison)]
