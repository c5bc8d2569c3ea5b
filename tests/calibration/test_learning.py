"""Learning curves: nested subsets, resampling against loops, and laws on curves whose gain is known."""

from dataclasses import replace

import numpy as np
import pytest

import curves
from pnca.calibration.laws import Spread, fit_spread, power_laws, resampled_curves
from pnca.calibration.learning import (
    Scores,
    default_sizes,
    learning_curve,
    mean_curve,
    nested_order,
    too_few,
)


@pytest.mark.parametrize("seed", range(5))
def test_nested_order__holds_every_class_and_splits_no_group(seed):
    rng = np.random.RandomState(seed)
    groups = rng.randint(25, size=90)
    labels = np.r_[np.zeros(60, dtype=int), np.ones(27, dtype=int), [2, 2, 2]]
    order, sizes = nested_order(labels, groups, rng)
    assert sorted(order.tolist()) == list(range(90))
    for size in sizes:
        first, rest = order[:size], order[size:]
        assert not set(groups[first]) & set(groups[rest])
        assert (np.bincount(labels[first], minlength=3) >= np.minimum(np.bincount(labels), 2)).all()
    assert sizes[-1] == 90
    assert sizes[0] < 60


def test_nested_order__is_random_after_the_first():
    labels = np.zeros(40, dtype=int)
    places = [
        nested_order(labels, None, np.random.RandomState(seed))[0].tolist().index(7) for seed in range(300)
    ]
    assert np.mean(places) == pytest.approx(19.5, abs=3 * 11.5 / np.sqrt(300))


def test_resampled_curves__vary_as_the_mean_of_independent_paths_does():
    rng = np.random.RandomState(0)
    paths = np.arange(200) % 5
    scores = rng.normal(size=(200, 1)) + np.array([3.0, -2, 0, 1, -2])[paths][:, None]
    of_paths = [scores[paths == p].mean() for p in range(5)]
    found = resampled_curves(scores, paths, np.arange(200), seed=0)
    assert found.mean() == pytest.approx(np.mean(of_paths), abs=0.1)
    # The variance between paths, unbiased, is the larger part; within paths each mean has about 1/40.
    expected = np.var(of_paths, ddof=1) / 5 + 5 / 4 * (1 / 40) / 5
    assert found.var() == pytest.approx(expected, rel=0.15)


def test_resampled_curves__of_units_keep_them_together():
    scores = np.repeat(np.random.RandomState(0).normal(size=20), 5)[:, None]
    paths, units = np.repeat(np.arange(4), 25), np.repeat(np.arange(20), 5)
    apart = resampled_curves(scores, np.zeros(100, dtype=int), np.arange(100), seed=0)
    together = resampled_curves(scores, np.zeros(100, dtype=int), units, seed=0)
    assert together.var() == pytest.approx(5 * apart.var(), rel=0.2)
    assert mean_curve(scores, paths, units, seed=0).mean[0] == pytest.approx(scores.mean())


def test_power_laws__of_a_curve_without_noise_are_its_law():
    sizes = np.array([10, 20, 40, 80])
    exponent = 0.2 * 6 ** (4 / 9)  # one of those that are tried
    losses = np.tile(0.1 + 2.0 * sizes**-exponent, (50, 1))
    laws = power_laws(losses, np.arange(50) % 5, np.arange(50), sizes, seed=0)
    for n in (100, 300):
        np.testing.assert_allclose(laws.at(n), 0.1 + 2.0 * n**-exponent, rtol=0.01)
    mean, low, high = laws.gain(100, 100)
    assert mean == pytest.approx(2 * (100**-exponent - 200**-exponent), rel=0.03)
    assert low <= mean <= high


def test_power_laws__never_rise_nor_fall_below_zero():
    rng = np.random.RandomState(0)
    rising = np.array([0.1, 0.2, 0.3, 0.4]) + 0.05 * rng.normal(size=(60, 4))
    sizes = np.array([10, 20, 40, 80])
    laws = power_laws(rising, np.arange(60) % 5, np.arange(60), sizes, seed=0)
    assert laws.gain(100, 100).mean == pytest.approx(0, abs=1e-9)
    steep = np.array([1.0, 0.3, 0.08, 0.01]) + 0.01 * rng.normal(size=(60, 4))
    laws = power_laws(steep, np.arange(60) % 5, np.arange(60), sizes, seed=0)
    assert (laws.floor >= 0).all()
    assert (laws.at(10_000) >= 0).all()


@pytest.mark.parametrize("exponent", [0.3, 1.0])
def test_power_laws__intervals_hold_gains_of_simulated_curves(exponent):
    rng, held = np.random.RandomState(0), []
    for place in range(40):
        losses, paths, sizes, gain, _ = curves.simulate(100, 0.3 * (place % 2), exponent, 0.1, rng)
        _, low, high = power_laws(losses, paths, np.arange(100), np.array(sizes), place).gain(100, 100)
        held.append(low <= gain <= high)
    assert np.mean(held) >= 0.9 - 3 * np.sqrt(0.09 / 40)  # three standard errors below the level


@pytest.mark.parametrize("exponent", [0.3, 1.0])
def test_power_laws__intervals_hold_own_gains_as_often_as_they_say(exponent):
    rng, held, without = np.random.RandomState(1), [], []
    for place in range(80):
        losses, paths, sizes, _, own = curves.simulate(300, 0.3 * (place % 2), exponent, 0.5, rng)
        laws = power_laws(losses, paths, np.arange(300), np.array(sizes), place)
        for found, spread in ((held, laws.spread), (without, Spread(0.0, 0.0, 16, 50.0))):
            _, low, high = replace(laws, spread=spread).gain(300, 100)
            found.append(low <= own <= high)
    three_errors = 3 * np.sqrt(0.09 / 80)
    assert np.mean(held) >= 0.9 - three_errors
    assert np.mean(without) < 0.9 - three_errors  # the spread of fits is needed


def test_fit_spread__tells_the_variance_of_fits_from_that_of_examples():
    rng, found = np.random.RandomState(0), []
    paths, sizes = np.repeat(np.arange(5), 20), np.array([5, 10, 20, 40, 80])
    for _ in range(200):
        of_fits = 0.2 * rng.normal(size=(5, 5)) + rng.normal(size=(5, 1))  # and what a path has at all sizes
        scores = of_fits[paths] + 0.5 * rng.normal(size=(100, 5)) + rng.normal(size=(100, 1))
        found.append(fit_spread(scores, paths, np.arange(100), sizes))
    assert found[0].degrees == 16
    assert found[0].size == pytest.approx(5 / sum(1 / size for size in (5, 10, 20, 40, 80)))
    assert np.mean([spread.within for spread in found]) == pytest.approx(0.5**2 / 20, rel=0.05)
    assert np.mean([spread.total - spread.within for spread in found]) == pytest.approx(0.2**2, rel=0.1)
    alike = np.tile(np.array([0.5, 0.4, 0.3, 0.2, 0.1]), (100, 1))
    none = fit_spread(alike, paths, np.arange(100), sizes)
    assert none.total == pytest.approx(0, abs=1e-20)
    np.testing.assert_allclose(none.variances(5, rng), 0, atol=1e-20)


def test_fit_spread__of_units_counts_each_once():
    rng = np.random.RandomState(0)
    paths, sizes = np.repeat(np.arange(5), 20), np.array([20, 40, 80])
    scores = rng.normal(size=(100, 3)) + rng.normal(size=(5, 3))[paths]
    alone = fit_spread(scores, paths, np.arange(100), sizes)
    copies = np.repeat(np.arange(100), 3)
    assert fit_spread(scores[copies], paths[copies], copies, sizes) == pytest.approx(alone)
    apart = fit_spread(scores[copies], paths[copies], np.arange(300), sizes)
    assert apart.within == pytest.approx(alone.within / 3, rel=0.05)


def test_variances__are_those_of_the_truncated_posterior():
    total, within, degrees = 2.0, 1.5, 6
    values = np.linspace(within, 200, 400_000)
    density = values ** (-degrees / 2 - 1) * np.exp(-degrees * total / (2 * values))
    mean = (values * density).sum() / density.sum() - within
    drawn = Spread(total, within, degrees, 1.0).variances(100_000, np.random.RandomState(0))
    assert (drawn >= 0).all()
    assert drawn.mean() == pytest.approx(mean, rel=0.03)
    # Without a part within, normal draws of these variances have Student's distribution.
    rng = np.random.RandomState(1)
    normal = np.sqrt(Spread(1.0, 0.0, 4, 1.0).variances(100_000, rng)) * rng.normal(size=100_000)
    assert np.quantile(normal, 0.95) == pytest.approx(2.132, rel=0.02)
    # Far less in total than within: the density falls as v^-9 from there on, with the mean 8 / 7.
    assert Spread(1e-3, 1.0, 16, 1.0).variances(100_000, rng).mean() == pytest.approx(1 / 7, rel=0.03)


def made(sizes=(10, 20, 40, 80), n=100, answered=True):
    rng = np.random.RandomState(0)
    shape = (n, len(sizes))
    errors = (rng.uniform(size=shape) < np.array(sizes) ** -0.5).astype(float)
    return learning_curve(
        Scores(errors, errors, errors if answered else None, np.arange(n) % 5, np.arange(n)),
        sizes,
        n=n,
        max_error=0.05,
        n_fits=20,
        seconds=3.2,
        seed=0,
    )


def test_learning_curve__says_what_more_labels_bring():
    curve = made()
    nll, error = curve.gain(100), curve.gain(100, "accuracy")
    assert nll == error  # of the same losses
    assert nll.low < nll.mean < nll.high
    assert curve.gain(300).mean > nll.mean
    assert curve.summary().startswith(
        "20 refits in 3 s. 100 more labels beside the 100 are expected to lower"
    )
    assert len(repr(curve).splitlines()) == 5
    np.testing.assert_allclose(curve.accuracy.mean, 1 - curve.nll.mean)
    assert ((curve.nll.low <= curve.nll.mean) & (curve.nll.mean <= curve.nll.high)).all()
    frame = curve.to_frame()
    assert frame.index.tolist() == [10, 20, 40, 80]
    assert {"nll", "nll_low", "accuracy_high", "answered"} <= set(frame)
    assert "answered" not in made(answered=False).to_frame()


def test_learning_curve__too_few_points_to_say():
    for curve, why in (
        (made((10, 20, 40)), "3 sizes from 10 to 40"),
        (made(n=20), "20 independent examples"),
    ):
        assert "Too few points to say" in curve.summary()
        assert why in curve.summary()
        assert np.isnan(curve.gain()).all()
    assert "from 60 to 80" in too_few(np.array([60, 65, 70, 80]), 100)


def test_default_sizes__are_spread():
    assert default_sizes(20, 80) == [20, 28, 40, 57, 80]
    assert default_sizes(12, 12) == [12]
    assert default_sizes(30, 12) == [12]
