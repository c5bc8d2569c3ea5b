"""What to label next: inputs that stand for the mistakes which a model is about to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.conformal import ROUNDING, FloatArray, IntArray
from pnca.exceptions import MissingExtraError

UNFAMILIAR, UNSURE, TYPICAL = "unfamiliar", "unsure", "typical"
#: Inputs of a pool that are compared pair by pair; of more, so many are drawn.
MOST_COMPARED = 4000
_MOST_SHOWN = 10


class Chosen(NamedTuple):
    """Rows in the order in which they were chosen, and what each added."""

    rows: IntArray  # (k,)
    gains: FloatArray  # (k,)


@dataclass(frozen=True, eq=False, repr=False)
class Suggestions:
    """Inputs of a pool that should be labelled next, the most useful first.

    Attributes
    ----------
    rows : ndarray of int, shape (k,)
        Rows of the pool.
    score : ndarray of shape (k,)
        Expected mistakes in the pool that the input stands for, beside those that earlier ones stand for.
    reason : ndarray of str, shape (k,)
        ``"unfamiliar"``: its familiarity is below the default of :meth:`pnca.PNCAClassifier.decide`;
        ``"unsure"``: the model is less sure of it than of the pool on average, though ``decide`` may answer
        it; ``"typical"``: it stands for others of which the model is less sure.
    confidence : ndarray of shape (k,)
        The largest class probability.
    familiarity : ndarray of shape (k,)
        The conformal p-value of the evidence.
    expected_mistakes : float
        In the whole pool, by the model's own probabilities.
    n : int
        Inputs in the pool.
    n_compared : int
        Inputs that were compared; below ``n`` the pool is large, and so many were drawn.
    """

    rows: IntArray
    score: FloatArray
    reason: NDArray[np.str_]
    confidence: FloatArray
    familiarity: FloatArray
    expected_mistakes: float
    n: int
    n_compared: int

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        lines = [f"<Suggestions: {self.summary()}>"]
        for row, score, reason, sure in zip(
            *(part[:_MOST_SHOWN].tolist() for part in (self.rows, self.score, self.reason, self.confidence)),
            strict=True,
        ):
            lines.append(f"- row {row}: {reason}, confidence {sure:.2f}; stands for {_count(score)} mistakes")
        if len(self) > _MOST_SHOWN:
            lines.append(f"- ... and {len(self) - _MOST_SHOWN} more")
        return "\n".join(lines)

    def summary(self) -> str:
        """Say in a sentence what was chosen and what it stands for."""
        counts = {name: int((self.reason == name).sum()) for name in (UNFAMILIAR, UNSURE, TYPICAL)}
        text = f"{len(self)} of {self.n} inputs, which stand for {self.score.sum():.2g} of about "
        text += f"{self.expected_mistakes:.2g} mistakes: "
        text += ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        if self.n_compared < self.n:
            text += f". The pool is large: {self.n_compared} of it were drawn and compared"
        return text

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return a pandas table with a row for each suggestion (``pip install 'pnca[studies]'``)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "studies") from error
        return pd.DataFrame(
            {name: getattr(self, name) for name in ("score", "reason", "confidence", "familiarity")},
            index=pd.Index(self.rows, name="row"),
        )


def cloud_similarity(embeddings: FloatArray, bandwidth: float) -> FloatArray:
    r"""Kernel between the embeddings of inputs, averaged over the particles: (n, n).

    .. math:: k_{ij} = \frac{1}{m} \sum_l \exp(-\lVert z_{li} - z_{lj} \rVert^2 / h)

    Parameters
    ----------
    embeddings : ndarray of shape (m, n, d)
        The points :math:`z_{li}`.
    bandwidth : float
        The bandwidth h.

    Examples
    --------
    >>> cloud_similarity(np.array([[[0.0], [1.0]], [[0.0], [0.0]]]), 1.0).round(2).tolist()
    [[1.0, 0.68], [0.68, 1.0]]
    """
    total = np.zeros((embeddings.shape[1],) * 2)
    for points in embeddings:
        squares = (points**2).sum(axis=1)
        distances = squares[:, None] + squares - 2 * points @ points.T
        np.fill_diagonal(distances, 0)
        total += np.exp(-distances.clip(min=0) / bandwidth)
    mean: FloatArray = total / len(embeddings)
    return mean


def representatives(similarity: FloatArray, weights: FloatArray, k: int) -> Chosen:
    r"""Choose k rows greedily that stand for as much weight as possible.

    .. math:: F(S) = \sum_i u_i \max_{j \in S} k_{ij}

    Each choice adds the most to F, which is monotone and submodular: the value reached is at least 1 - 1/e of
    the best of any k rows (Nemhauser, Wolsey and Fisher, 1978). Rows in dense regions of large weight come
    first, and what resembles a chosen one adds little.

    Parameters
    ----------
    similarity : ndarray of shape (n, n)
        From zero to one, one on the diagonal.
    weights : ndarray of shape (n,)
        What each row weighs, such as its expected mistakes.
    k : int
        Rows to choose, at most n.

    Examples
    --------
    >>> similarity = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> representatives(similarity, np.array([0.4, 0.5, 0.3]), 2).rows.tolist()
    [1, 2]
    """
    reached, bounds = np.zeros(len(weights)), weights @ similarity
    rows, gains = np.empty(k, dtype=np.int64), np.empty(k)
    is_known = np.ones(len(weights), dtype=bool)
    for place in range(k):
        # Gains only fall, so that an earlier one is a bound: few need to be computed again.
        while not is_known[best := int(bounds.argmax())]:
            bounds[best] = weights @ (similarity[:, best] - reached).clip(min=0)
            is_known[best] = True
        rows[place], gains[place] = best, bounds[best]
        reached, bounds[best] = np.maximum(reached, similarity[:, best]), -1.0
        is_known = bounds < 0
    return Chosen(rows, gains)


def suggest(
    proba: FloatArray,
    familiarity: FloatArray,
    similarity: FloatArray,
    k: int,
    *,
    rows: IntArray,
    n: int,
    min_familiarity: float,
) -> Suggestions:
    r"""Suggest k inputs that stand for the expected mistakes of a pool.

    The weight of an input is the probability that its most probable class is wrong,
    :math:`u_i = 1 - \max_c p_{ic}`; :func:`representatives` chooses.

    Parameters
    ----------
    proba : ndarray of shape (n', c)
        Class probabilities of the inputs that are compared.
    familiarity : ndarray of shape (n',)
        Their familiarity.
    similarity : ndarray of shape (n', n')
        How alike they are.
    k : int
        Suggestions, at most n'.
    rows : ndarray of int, shape (n',)
        Where they are in the pool.
    n : int
        Inputs in the pool.
    min_familiarity : float
        Familiarity below which an input is unfamiliar.

    Returns
    -------
    Suggestions
    """
    confidence, scale = proba.max(axis=1), n / len(rows)
    mistakes = 1 - confidence
    chosen, gains = representatives(similarity, mistakes, k)
    reason = np.where(mistakes[chosen] >= mistakes.mean() - ROUNDING, UNSURE, TYPICAL)
    reason = np.where(familiarity[chosen] < min_familiarity - ROUNDING, UNFAMILIAR, reason)
    return Suggestions(
        rows=rows[chosen],
        score=gains * scale,
        reason=reason,
        confidence=confidence[chosen],
        familiarity=familiarity[chosen],
        expected_mistakes=float(mistakes.sum() * scale),
        n=n,
        n_compared=len(rows),
    )


def _count(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
