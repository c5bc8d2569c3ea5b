"""Compare ways to certify a threshold on confidence, in simulation: how much is answered, how often in vain.

``python benchmarks/thresholds.py`` prints the share of inputs that are answered, and the share of draws in
which more than 5 % of the answers are wrong, promised with confidence .9, for the walk of
``pnca.calibration.selective``, for Bonferroni on grids of ranks, and with groups of five for the bound of
Hoeffding and Bentkus in place of the bet.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, xlogy

from pnca.calibration import selective
from pnca.calibration.selective import certified_threshold, examples_needed

FloatArray = NDArray[np.float64]

MAX_ERROR, CONFIDENCE = 0.05, 0.9
#: Error rate by rank, zero for the surest: 3 % and 10 % of all are wrong, and just too many everywhere.
RATES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "3 % wrong": lambda u: 0.12 * u**3,
    "10 % wrong": lambda u: 0.5 * u**4,
    "5.5 % wrong, whatever the confidence": lambda u: np.full_like(u, 0.055),
}
SIZES = (60, 120, 250, 1000)
GROUP_SIZE = 5


def walk(u: FloatArray, is_wrong: NDArray[np.bool_]) -> float:
    """Share that is answered by the library's threshold."""
    value = certified_threshold(1 - u, is_wrong, MAX_ERROR, CONFIDENCE).value
    return 0.0 if value is None else 1 - value


def grid_of(ratio: float) -> Callable[[FloatArray, NDArray[np.bool_]], float]:
    """Bonferroni over ranks n, n / ratio, n / ratio^2, ... down to those that can show anything."""

    def choose(u: FloatArray, is_wrong: NDArray[np.bool_]) -> float:
        order, ranks = np.argsort(u), [len(u)]
        while True:
            rank, part = int(ranks[-1] / ratio), (1 - CONFIDENCE) / (len(ranks) + 1)
            if rank < examples_needed(MAX_ERROR, 1 - part):
                break
            ranks.append(rank)
        n_wrong = is_wrong[order].cumsum()
        for rank in ranks:
            if bdtr(float(n_wrong[rank - 1]), rank, MAX_ERROR) <= (1 - CONFIDENCE) / len(ranks):
                return float(u[order][rank - 1])
        return 0.0

    return choose


def of_groups(u: FloatArray, is_wrong: NDArray[np.bool_]) -> float:
    """Share that is answered by the library's threshold, if five examples each are a group."""
    groups = np.arange(len(u)) // GROUP_SIZE
    value = certified_threshold(1 - u, is_wrong, MAX_ERROR, CONFIDENCE, groups=groups).value
    return 0.0 if value is None else 1 - value


def hoeffding_bentkus(excess: FloatArray, groups: NDArray[np.int64], max_error: float) -> FloatArray:
    """P-values (n,) in place of the bet's, from the mean over groups and its range alone."""
    is_first = np.zeros(len(groups), dtype=bool)
    is_first[np.unique(groups, return_index=True)[1]] = True
    n = is_first.cumsum()
    means = (max_error + excess.cumsum() / n).clip(0, 1)
    low = means.clip(0, max_error)
    divergence = xlogy(low, low / max_error) + xlogy(1 - low, (1 - low) / (1 - max_error))
    bentkus = math.e * bdtr(np.ceil(n * means - 1e-9).clip(0), n, max_error)
    p_values: FloatArray = np.minimum(np.minimum(np.exp(-n * divergence), bentkus), 1.0)
    return p_values


def of_groups_by_range(u: FloatArray, is_wrong: NDArray[np.bool_]) -> float:
    """The same with the bound of Hoeffding and Bentkus."""
    bet, selective.betting_p_values = selective.betting_p_values, hoeffding_bentkus
    try:
        return of_groups(u, is_wrong)
    finally:
        selective.betting_p_values = bet


WAYS = {
    "walk": walk,
    "grid 1.25": grid_of(1.25),
    "grid 1.5": grid_of(1.5),
    "grid 2": grid_of(2.0),
    "groups, bet": of_groups,
    "groups, range": of_groups_by_range,
}


def simulate(
    rate: Callable[[FloatArray], FloatArray], n: int, n_draws: int
) -> dict[str, tuple[float, float]]:
    """Share that is answered, and share of draws with too many mistakes among the answers, by way."""
    rng, found = np.random.RandomState(0), {name: [] for name in WAYS}
    places = np.linspace(0, 1, 10_001)[1:]
    risks = rate(places).cumsum() / np.arange(1, len(places) + 1)
    for _ in range(n_draws):
        u = rng.uniform(size=n)
        is_wrong = rng.uniform(size=n) < rate(u)
        for name, way in WAYS.items():
            share = way(u, is_wrong)
            is_broken = share > 0 and risks[math.ceil(share * len(places)) - 1] > MAX_ERROR + 1e-9
            found[name].append((share, is_broken))
    return {name: tuple(np.mean(pairs, axis=0).tolist()) for name, pairs in found.items()}


def main(arguments: list[str] | None = None) -> None:
    """Print a table for each error rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    given = parser.parse_args(arguments)
    for name, rate in RATES.items():
        print(f"{name}\n| n | {' | '.join(WAYS)} |\n|--:|{'--:|' * len(WAYS)}")
        for n in given.sizes:
            cells = [
                f"{share:.2f}, {broken:.2f}" for share, broken in simulate(rate, n, given.draws).values()
            ]
            print(f"| {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
