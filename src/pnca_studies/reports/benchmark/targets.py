"""What PNCA is meant to reach, and whether it does."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pnca_studies.experiments.benchmark.models import CONSTANT, PAPER, PNCA
from pnca_studies.reports.benchmark.groups import Group, losses
from pnca_studies.reports.benchmark.measures import (
    ACCURACY,
    AUROC,
    ECE,
    NLL,
    ROTATED_AUGRC,
    Measure,
    told,
    wrong_above,
)
from pnca_studies.reports.benchmark.results import Place, Results
from pnca_studies.reports.tables import NOTHING, Table, number, per_cent
from pnca_studies.rivals import SCORES

MET, NOT_MET, NOT_RUN = "met", "not met", "not run"

_PAPERS_PNCA = "PNCA (paper)"
_MNIST, _IMAGES, _COVID = "MNIST", "MNIST images", "COVID"
_PARTS, _SIZES = ("final tables", "tuning tables"), ("100", "half")

_TARGETS_TEXT = """\
## Targets

What PNCA is meant to reach. Of {n}: {counts}.

*Best other* is the complete classifier with the best mean there, or the model that the target names. Where
a target is to be at least as good, the interval of the difference must reach zero or lie beyond it: it is
met if the data do not show PNCA to be worse, which is no test of equivalence. A target that lacks cells, or
five draws for an interval, is not run and left out below.
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of a target: whether it is met, None if that was not run, and the numbers that say so."""

    met: bool | None = None
    value: str = NOTHING
    other: str = NOTHING
    difference: str = NOTHING

    @property
    def verdict(self) -> str:
        """In words."""
        return {None: NOT_RUN, True: MET, False: NOT_MET}[self.met]


def _reaches(value: float, limit: float, *, more: bool, strictly: bool = False) -> bool | None:
    """Whether a value is on the better side of a limit, or at it; None if one of them is missing."""
    if not np.isfinite([value, limit]).all():
        return None
    # The last digits of a mean are rounding; they decide nothing.
    gain = np.round(value - limit if more else limit - value, 12)
    return bool(gain > 0 if strictly else gain >= 0)


def _four_digits(value: float) -> str:
    return number(value, 4)


def _share(value: float) -> str:
    return per_cent([value], 3)


def _who(
    results: Results,
    place: Place,
    measure: Measure,
    model: str | None,
    write: Callable[[float], str] = _four_digits,
) -> str:
    """A model's mean and its name."""
    mean = results.mean(place, model, measure)
    return f"{write(mean)} ({model})" if np.isfinite(mean) else NOTHING


def _at_least_as_good(results: Results, place: Place, measure: Measure) -> Finding:
    """Not worse than the best baseline: the interval of the difference reaches zero or lies beyond it."""
    best, value = results.best(place, measure), number(results.mean(place, PNCA, measure), 4)
    found = results.difference(place, best, measure) if best else None
    if best is None or found is None:
        return Finding(value=value, other=_who(results, place, measure, best))
    return Finding(
        met=found.side(measure) != "loss" if np.isfinite(found.low) else None,
        value=value,
        other=_who(results, place, measure, best),
        difference=str(found),
    )


def _within(
    results: Results,
    place: Place,
    measure: Measure,
    limit: float | None = None,
    write: Callable[[float], str] = _four_digits,
) -> Finding:
    """On the better side of a limit, or at it; by default the limit is the mean of the best baseline."""
    value, best = results.mean(place, PNCA, measure), results.best(place, measure)
    return Finding(
        met=_reaches(
            value, results.mean(place, best, measure) if limit is None else limit, more=measure.more
        ),
        value=write(value),
        other=_who(results, place, measure, best, write),
    )


def _above_the_papers(results: Results, place: Place) -> Finding:
    value, flat = results.mean(place, PNCA, ACCURACY), (_MNIST, place[1])
    return Finding(
        met=_reaches(value, results.mean(flat, _PAPERS_PNCA, ACCURACY) + _GAIN, more=True),
        value=number(value, 4),
        other=_who(results, flat, ACCURACY, _PAPERS_PNCA),
    )


def _far_below_the_papers(results: Results, place: Place) -> Finding:
    value, flat = results.mean(place, PNCA, NLL), (_MNIST, place[1])
    best = _best_if_all_there(results, flat, NLL, PAPER)
    return Finding(
        met=_reaches(value, _SHARE * results.mean(flat, best, NLL), more=False),
        value=number(value, 4),
        other=f"{number(_SHARE, 2)} of {_who(results, flat, NLL, best)}" if best else NOTHING,
    )


def _above_the_scores(results: Results, place: Place, test_set: str) -> Finding:
    by = [told(test_set, score) for score in ("evidence", "confidence")]
    values = [results.mean(place, PNCA, measure) for measure in by]
    score = _best_if_all_there(results, place, by[0], list(SCORES))
    best = results.mean(place, score, by[0])
    return Finding(
        met=_reaches(float(np.min(values)), best, more=True, strictly=True),
        value=" / ".join(number(value, 4) for value in values),
        other=_who(results, place, by[0], score),
    )


def _best_if_all_there(results: Results, place: Place, measure: Measure, models: Sequence[str]) -> str | None:
    """The best of some models, if all of them took part: the best may be the one that is missing."""
    return results.best(place, measure, models) if set(models) <= set(results.models(place)) else None


def _first_in_rank(group: Group) -> Finding:
    """The lowest mean rank in NLL over data sets."""
    ranks = group.ranks(NLL) if group.is_known else {}
    if not ranks:
        return Finding()
    best = min(group.rivals, key=lambda model: ranks[model])
    return Finding(
        met=_reaches(ranks[PNCA], ranks[best], more=False),
        value=number(ranks[PNCA], 2),
        other=f"{number(ranks[best], 2)} ({best})",
    )


def _no_loss(group: Group) -> Finding:
    """No rival is better in NLL, accuracy or AUROC by more than luck."""
    if not group.is_known:
        return Finding()
    found = [f"{rival} ({measure.name})" for measure, rivals in losses(group).items() for rival in rivals]
    return Finding(met=not found, other="; ".join(found) or NOTHING)


def _never_worse_than_shares(group: Group) -> Finding:
    """Its NLL is at most that of the constant answer on every data set."""
    if not group.is_known or CONSTANT not in group.models:
        return Finding()
    ratios = group.results.means(group.places, [PNCA], NLL) / group.results.means(
        group.places, [CONSTANT], NLL
    )
    worst = int(ratios.argmax())
    value = float(ratios.max())
    return Finding(
        met=_reaches(value, 1.0, more=False), value=number(value, 3), other=f"on {group.places[worst][0]}"
    )


#: PNCA shall be this much more accurate than the paper's, and its NLL this share of the best of the paper's.
_GAIN, _SHARE = 0.05, 0.85

_ON_TABLES: Mapping[str, Callable[[Group], Finding]] = {
    "Best mean rank in NLL": _first_in_rank,
    "No rival better by more than luck in NLL, accuracy or AUROC": _no_loss,
    "NLL at most the class shares' on every table (the largest ratio)": _never_worse_than_shares,
}
_ON_MNIST: Mapping[str, Callable[[Results, Place], Finding]] = {
    "Accuracy at least as good as the best other's": partial(_at_least_as_good, measure=ACCURACY),
    f"Accuracy {number(_GAIN, 2)} above PNCA (paper) on MNIST": _above_the_papers,
    f"NLL at most {number(_SHARE, 2)} of the paper's best model on MNIST": _far_below_the_papers,
    "ECE at most .025": partial(_within, measure=ECE, limit=0.025),
    "Letters above confidence .9: at most 0.2 %": partial(
        _within, measure=wrong_above("letters"), limit=0.002, write=_share
    ),
    "OoD AUROC by evidence at least .995": partial(_within, measure=told("letters", "evidence"), limit=0.995),
    "OoD AUROC by confidence at least .99": partial(
        _within, measure=told("letters", "confidence"), limit=0.99
    ),
    "Both (evidence / confidence) above the scores without a classifier": partial(
        _above_the_scores, test_set="letters"
    ),
    "Rotated digits: lowest AUGRC of all": partial(_within, measure=ROTATED_AUGRC),
}
_ON_COVID: Mapping[str, Callable[[Results, Place], Finding]] = {
    "AUROC at least as good as the best other's": partial(_at_least_as_good, measure=AUROC),
    "NLL at least as good as the best other's": partial(_at_least_as_good, measure=NLL),
    "Bones above confidence .9: at most 1 %": partial(
        _within, measure=wrong_above("bones"), limit=0.01, write=_share
    ),
    "OoD AUROC by evidence at least .99": partial(_within, measure=told("bones", "evidence"), limit=0.99),
}


def findings(results: Results) -> dict[str, list[tuple[str, str, Finding]]]:
    """Test every target: by data its text, its size, and what came of it."""
    found = {
        part: [
            (text, size, test(Group.of(results, results.of_group(part, size=size))))
            for text, test in _ON_TABLES.items()
            for size in _SIZES
        ]
        for part in _PARTS
    }
    for data, targets in {_MNIST: _ON_MNIST, _IMAGES: _ON_MNIST, _COVID: _ON_COVID}.items():
        places = [place for place in results.of_group("images", "features") if place[0] == data]
        found[data] = [
            (text, place[1], test(results, place)) for text, test in targets.items() for place in places
        ]
    return found


def targets_page(results: Results) -> str:
    """List the targets with what came of them."""
    found = findings(results)
    counts = Counter(finding.verdict for given in found.values() for _, _, finding in given)
    if counts[NOT_RUN] == counts.total():
        return "## Targets\n\nNone of the targets can be tested with these cells.\n"
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (MET, NOT_MET, NOT_RUN))
    lines = [_TARGETS_TEXT.format(n=counts.total(), counts=total)]
    for data, given in found.items():
        if was_run := [target for target in given if target[2].verdict != NOT_RUN]:
            lines += [f"### {data}: targets", "", _targets_table(was_run), ""]
    return "\n".join(lines)


def _targets_table(given: Sequence[tuple[str, str, Finding]]) -> str:
    rows, earlier = [], ""
    for text, n, finding in given:
        verdict = f"**{NOT_MET}**" if finding.verdict == NOT_MET else finding.verdict
        rows.append(
            [text if text != earlier else "", n, finding.value, finding.other, finding.difference, verdict]
        )
        earlier = text
    headings = ["target", "size", "PNCA", "best other", "difference (95 % interval)", "verdict"]
    return Table(headings=headings, rows=rows).markdown()
