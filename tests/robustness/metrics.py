"""One call of a metric or of temperature scaling, with arrays that are legal or not."""

import numpy as np
import torch

from pnca import calibration, evaluation
from robustness.oddities import EITHER, ILLEGAL, LEGAL, Odd, pandas, pick
from robustness.verdicts import Refused, refusals, untouched_random_numbers


def metric_call(seed, folder):
    """A random public function of pnca.evaluation or pnca.calibration."""
    rng = np.random.default_rng(seed)
    name = pick(rng, sorted(_CALLS))
    function = getattr(evaluation, name, None) or getattr(calibration, name)
    arguments, check = _CALLS[name](rng)
    verdict = max(argument.verdict for argument in arguments)
    case = f"metric_call {seed}: {name}({', '.join(argument.name for argument in arguments)})"
    before = [_bytes(argument.value) for argument in arguments]
    with untouched_random_numbers(case):
        try:
            with refusals(case):
                found = function(*(argument.value for argument in arguments))
        except Refused as refusal:
            assert verdict != LEGAL, f"{case}: refused: {refusal}"
            return
    assert [_bytes(argument.value) for argument in arguments] == before, f"{case}: its arguments were changed"
    assert verdict != ILLEGAL, f"{case}: gave {found}"
    if verdict == LEGAL:
        check(found, case, *(np.asarray(argument.value) for argument in arguments))


def _bytes(value):
    return value.tobytes() if isinstance(value, np.ndarray) and value.dtype.kind != "O" else None


# --- arguments ------------------------------------------------------------------------------------------


def _damaged(rng, value, others):
    """The array itself, mostly; or something odd in its place."""
    if rng.random() < 0.6:
        return Odd(value, "legal")
    return pick(rng, others + _anything(value))


def _anything(value):
    gradient = torch.tensor(np.asarray(value, dtype=float), requires_grad=True)
    return [
        Odd(None, "None", ILLEGAL),
        Odd("text", "text", ILLEGAL),
        Odd(object(), "object", ILLEGAL),
        Odd(value[:0], "empty", EITHER),
        Odd(value[:-1], "one less", ILLEGAL if len(value) < 2 else EITHER),
        Odd(value[None], "nested", ILLEGAL),
        Odd([[1.0], [1.0, 2.0]], "ragged", ILLEGAL),
        Odd(np.asarray(value) + 1j, "complex", ILLEGAL),
        Odd(np.full(value.shape, np.datetime64("2026-01-01")), "dates", ILLEGAL),
        Odd(np.full(value.shape, "word"), "words", ILLEGAL),
        Odd(value.tolist(), "lists", EITHER),
        Odd(value.astype(object), "objects", EITHER),
        Odd(value.astype(">f8"), "big-endian floats", EITHER),
        Odd(np.asfortranarray(value), "Fortran order", LEGAL),
        Odd(gradient, "tensor with gradient", EITHER),
        Odd(gradient.detach().bfloat16(), "tensor of bfloat16", EITHER),
        Odd(np.ma.masked_array(value, mask=False), "masked", EITHER),
        Odd({"a": 1}, "dict", ILLEGAL),
        Odd((row for row in value), "generator", ILLEGAL),
    ]


def _probabilities(rng, n):
    c = int(rng.integers(2, 6))
    logits = rng.normal(size=(n, c)) * pick(rng, [0, 1, 5, 500])
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    if rng.random() < 0.3:
        p = p.astype(np.float32)
    nan, negative = p.copy(), p.copy()
    nan[0, 0], negative[0, :2] = np.nan, (-0.5, 0.5 + p[0, :2].sum())
    others = [
        Odd(nan, "a NaN", ILLEGAL),
        Odd(negative, "negative", ILLEGAL),
        Odd(p * 100, "percentages", ILLEGAL),
        Odd(p * 0, "zeros", ILLEGAL),
        Odd(p[:, :1], "one column", ILLEGAL),
        Odd(p[:, 0], "one vector", ILLEGAL),
        Odd(p * 1e300, "huge", ILLEGAL),
        Odd(np.full_like(p, np.inf), "infinite", ILLEGAL),
    ]
    return _damaged(rng, p, others), c


def _labels(rng, n, c):
    y = rng.integers(0, c, size=n)
    y = pick(rng, [y, np.zeros_like(y), y.astype(np.uint8), y.astype(np.int8)])
    others = [
        Odd(y + c, "too large", ILLEGAL),
        Odd(y.astype(int) - c, "negative", ILLEGAL),
        Odd(y.astype(float), "floats", ILLEGAL),
        Odd(y.astype(bool), "bools", ILLEGAL),
        Odd(y.astype(np.uint64) + np.uint64(2**63), "beyond int64", ILLEGAL),
        Odd(y[:, None], "column", ILLEGAL),
        Odd(np.r_[y, 0], "one more", ILLEGAL),
    ]
    return _damaged(rng, y, others)


def _scores(rng, n):
    s = rng.normal(size=n) * 10.0 ** rng.integers(-300, 300)
    s = pick(rng, [s, np.round(rng.normal(size=n)), np.zeros(n), np.where(rng.random(n) < 0.2, np.inf, s)])
    nan = np.r_[s[1:], np.nan]
    return _damaged(rng, s, [Odd(nan, "a NaN", ILLEGAL), Odd(s[:, None], "column", ILLEGAL)])


def _correct(rng, n):
    hits = rng.random(n) < rng.random()
    hits = pick(rng, [hits, hits.astype(int), hits.astype(float)])
    return _damaged(rng, hits, [Odd(hits + 0.5, "halves", ILLEGAL), Odd(hits - 1.0, "negative", EITHER)])


def _number(rng, low, legal):
    return pick(
        rng,
        [Odd(value, repr(value)) for value in legal] * 3
        + [Odd(value, repr(value), ILLEGAL) for value in (low, np.nan, np.inf, "0.5", None, [0.5], 1j, -1)],
    )


def _n(rng):
    return int(pick(rng, [1, 2, 3, 10, 50]))


def _series(rng, n):
    d = rng.normal(size=n)
    d = pick(rng, [d, np.zeros(n), np.where(rng.random(n) < 0.3, np.nan, d), d * 1e-300, d + 1e12])
    if rng.random() < 0.05:
        return Odd(pandas().Series(d), "series", EITHER)
    return _damaged(rng, d, [Odd(d[:, None], "column", ILLEGAL)])


# --- functions ------------------------------------------------------------------------------------------


def _of_labels(low, high, reference=None):
    def call(rng):
        p, c = _probabilities(rng, n := _n(rng))

        def check(found, case, labels, probabilities):
            assert isinstance(found, float), case
            assert low <= found <= high + 1e-9, f"{case}: {found}"
            if reference is not None:
                expected = reference(labels.astype(int), probabilities.astype(float))
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=case)

        return [_labels(rng, n, c), p], check

    return call


def _nll(y, p):
    eps = np.finfo(float).eps
    return -np.log((p / p.sum(axis=1, keepdims=True))[np.arange(len(y)), y].clip(eps, 1 - eps)).mean()


def _calibration_error(rng):
    (labels, p), check = _of_labels(0, 1)(rng)
    n_bins = pick(
        rng, [Odd(k, str(k)) for k in (1, 15, 1000)] + [Odd(k, repr(k), ILLEGAL) for k in (0, 1.5, None)]
    )
    return [labels, p, n_bins], lambda found, case, y, p, k: check(found, case, y, p)


def _confidence_bins(rng):
    (labels, p, n_bins), _ = _calibration_error(rng)

    def check(found, case, y, p, k):
        low, high = found.edges[found.bins], found.edges[found.bins + 1]
        assert ((found.confidence > low) & (found.confidence <= high)).all(), case
        np.testing.assert_array_equal(found.correct, p.argmax(axis=1) == y, err_msg=case)

    return [labels, p, n_bins], check


def _auroc_of_classes(rng):
    (labels, p), _ = _of_labels(0, 1)(rng)

    def check(found, case, y, p):
        assert np.isnan(found) == (len(set(y.tolist())) == 1), f"{case}: {found}"
        assert np.isnan(found) or -1e-12 <= found <= 1 + 1e-12, f"{case}: {found}"

    return [labels, p], check


def _auroc_contributions(rng):
    (labels, p), _ = _of_labels(0, 1)(rng)

    def check(found, case, y, p):
        assert found.shape == y.shape, case
        np.testing.assert_allclose(found.mean(), evaluation.auroc(y, p), err_msg=case)

    return [labels, p], check


def _curve(rng):
    (labels, p), _ = _of_labels(0, 1)(rng)

    def check(found, case, y, p, levels):
        confident = p.max(axis=1)[None] >= found.thresholds[:, None]
        with np.errstate(invalid="ignore"):
            expected = (confident & (p.argmax(axis=1) == y)).sum(axis=1) / confident.sum(axis=1)
        np.testing.assert_allclose(found.values, expected, err_msg=case)

    return [labels, p, _levels(rng)], check


def _count(rng):
    p, _ = _probabilities(rng, _n(rng))

    def check(found, case, p, levels):
        assert (np.diff(found.values[np.argsort(found.thresholds)]) <= 0).all(), case
        assert found.values.max() <= len(p), case

    return [p, _levels(rng)], check


def _levels(rng):
    levels = rng.random(int(rng.integers(1, 5)))
    others = [Odd(levels + 1, "above one", ILLEGAL), Odd(levels - 2, "negative", ILLEGAL)]
    found = _damaged(rng, levels, others)
    return Odd(None, "the default", EITHER) if found.value is None else found


def _share(rng):
    p, _ = _probabilities(rng, _n(rng))
    threshold = _number(rng, -0.1, [0, 0.5, 1, np.float32(0.9)])
    return [p, threshold], lambda found, case, p, t: np.testing.assert_equal(
        found, (p.max(axis=1) > t).mean()
    )


def _ranked(low, high):
    def call(rng):
        arguments = [_scores(rng, _n(rng)), _scores(rng, _n(rng))]

        def check(found, case, inside, outside):
            assert low <= found <= high, f"{case}: {found}"

        return arguments, check

    return call


def _auroc(rng):
    def check(found, case, inside, outside):
        above = (outside[:, None] > inside) + 0.5 * (outside[:, None] == inside)
        np.testing.assert_allclose(found, above.mean(), atol=1e-9, err_msg=case)

    return [_scores(rng, _n(rng)), _scores(rng, _n(rng))], check


def _selective(*numbers):
    def call(rng):
        n = _n(rng)
        arguments = [_correct(rng, n), _scores(rng, n), *(_number(rng, *number) for number in numbers)]

        def check(found, case, correct, *others):
            assert 0 <= found <= 1, f"{case}: {found}"

        return arguments, check

    return call


def _risk_coverage(rng):
    n = _n(rng)

    def check(found, case, correct, confidence):
        np.testing.assert_allclose(found[0], np.arange(1, n + 1) / n, err_msg=case)
        np.testing.assert_allclose(found[1][-1], 1 - correct.mean(), atol=1e-9, err_msg=case)

    return [_correct(rng, n), _scores(rng, n)], check


def _paired(rng):
    n = _n(rng)
    return [_series(rng, n), _series(rng, n), _number(rng, 0, [0.5, 0.95])], _check_interval


def _bootstrap(rng):
    n_resamples = pick(rng, [Odd(100, "100")] * 3 + [Odd(k, repr(k), ILLEGAL) for k in (0, -1, 1.5, "9")])
    return [_series(rng, _n(rng)), _number(rng, 0, [0.5, 0.95]), n_resamples], _check_interval


def _share_interval(rng):
    groups = pick(rng, [Odd(None, "no groups"), Odd(np.arange(9), "groups of another length", EITHER)])
    return [_correct(rng, _n(rng)), groups, _number(rng, 0, [0.5, 0.95])], _check_interval


def _mean_interval(rng):
    (_, groups, level), check = _share_interval(rng)
    return [_series(rng, _n(rng)), groups, level], check


def _check_interval(found, case, *arguments):
    mean, low, high = found
    assert np.isnan(low) == np.isnan(high), f"{case}: {found}"
    width = 1e-9 * abs(mean)
    assert np.isnan(low) or low <= mean + width <= high + 2 * width, f"{case}: {found}"


def _logs(rng, n):
    logits = rng.normal(size=(n, int(rng.integers(2, 5)))) * pick(rng, [0, 1, 500, 1e300])
    nan, none = logits.copy(), logits.copy()
    nan[0, 0], none[0] = np.nan, -np.inf
    others = [
        Odd(nan, "a NaN", ILLEGAL),
        Odd(none, "no class", ILLEGAL),
        Odd(-nan * np.inf, "infinite", ILLEGAL),
    ]
    zero = logits.copy()
    zero[:, 0] = -np.inf
    return _damaged(rng, pick(rng, [logits, zero]), others), logits.shape[1]


def _fit_temperature(rng):
    logs, c = _logs(rng, n := _n(rng))

    def check(found, case, logs, labels):
        assert 0.049 <= found <= 20.1, f"{case}: {found}"

    return [logs, _labels(rng, n, c)], check


def _apply_temperature(rng):
    def check(found, case, logs, temperature):
        np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-9, err_msg=case)
        assert not np.isnan(found).any(), case

    return [_logs(rng, _n(rng))[0], _number(rng, 0, [1, 0.05, 20.0, 1e-300, 1e300])], check


_CALLS = {
    "accuracy": _of_labels(0, 1, lambda y, p: (p.argmax(axis=1) == y).mean()),
    "balanced_accuracy": _of_labels(
        0, 1, lambda y, p: np.mean([(p.argmax(axis=1) == y)[y == k].mean() for k in set(y.tolist())])
    ),
    "negative_log_likelihood": _of_labels(0, 37, _nll),
    "brier_score": _of_labels(
        0, 2.01, lambda y, p: ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()
    ),
    "expected_calibration_error": _calibration_error,
    "confidence_bins": _confidence_bins,
    "auroc": _auroc_of_classes,
    "auroc_contributions": _auroc_contributions,
    "summarise": lambda rng: (
        _of_labels(0, 1)(rng)[0],
        lambda found, case, y, p: np.testing.assert_array_less(-1e-12, list(found.values()), err_msg=case),
    ),
    "accuracy_vs_confidence": _curve,
    "count_vs_confidence": _count,
    "share_above": _share,
    "ood_auroc": _auroc,
    "ood_aupr": _ranked(0, 1 + 1e-12),
    "ood_fpr95": _ranked(0, 1),
    "aurc": _selective(),
    "augrc": _selective(),
    "risk_coverage": _risk_coverage,
    "risk_at_coverage": _selective((0, [0.5, 1, np.float32(0.3)])),
    "coverage_at_risk": _selective((-0.1, [0, 0.05, 1])),
    "paired_interval": _paired,
    "bootstrap_interval": _bootstrap,
    "share_interval": _share_interval,
    "mean_interval": _mean_interval,
    "fit_temperature": _fit_temperature,
    "apply_temperature": _apply_temperature,
}  # fmt: skip
_PUBLIC = {name: getattr(module, name) for module in (evaluation, calibration) for name in module.__all__}
assert set(_CALLS) == {name for name, public in _PUBLIC.items() if not isinstance(public, type)}
