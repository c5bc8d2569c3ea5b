"""Fitting a pool: experts in the folds of the neighbours, and what each of all counts for."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pnca.maths.pool import Answers, pool_weights, pooled
from pnca.maths.say import Say
from pnca.models.experts import EXPERTS
from pnca.models.options import has_many_columns
from pnca.models.plan import rows_of_spread
from pnca.models.pool import Pool
from pnca.models.selection import Choice, OutOfFold
from pnca.training.loop import Phase
from pnca.training.sampling import Examples
from pnca.training.shards import ProcessShards

#: How far weights are shrunk: as if each expert had been right so often when all others were not, divided by
#: the classes less one. Experts estimate each class on its own, so that with many they deserve less trust
#: beforehand; neighbours, the most flexible, get none.
_COUNT = 2.0
#: What neighbours get with many columns, such as pixels. A line then has more coefficients than there are
#: examples; it may do well out of fold by luck, and a hundred examples do not tell.
_COUNT_OF_NEIGHBOURS = 10.0


def with_pool(
    choice: Choice,
    names: tuple[str, ...],
    examples: Examples,
    seed: int,
    phase: Phase,
    shards: ProcessShards | None,
) -> Choice:
    """Fit the named experts in the folds of a choice, and learn what they and the neighbours count for.

    With novelty, the say of all falls far from every class.
    """
    if choice.out_of_fold is None or choice.folds is None:
        return choice
    fits = {}
    with phase("experts", len(names)) as advance:
        for name in names:
            fits[name] = EXPERTS[name](examples, choice.folds, seed)
            advance()
    labels, weights = torch.from_numpy(examples.labels), torch.from_numpy(examples.weights)
    log_prior = labels.bincount(weights).log().log_softmax(dim=0)
    say, log_say = None, None
    if choice.novelty is not None:
        inputs, folds = torch.from_numpy(examples.inputs), torch.from_numpy(choice.folds)
        say, log_distances = Say.fit(inputs, labels, rows_of_spread(examples), folds)
        log_say = say.log_of(log_distances)
    of_neighbours = torch.from_numpy(choice.out_of_fold.proba).log()
    logs = torch.stack([of_neighbours, *(fit.log_probabilities for fit in fits.values())])
    if shards is not None:  # what follows must not depend on a rank's rounding
        for tensor in (logs, *(part for fit in fits.values() for part in fit.rounded)):
            shards.follow_(tensor)
    # Each answer alone, so that what it is worth is what is left of it.
    alone = torch.stack(
        [pooled(answer[None], torch.ones(1).double(), log_prior, log_say).mean() for answer in logs]
    )
    likelihoods = alone.gather(2, labels.expand(len(alone), -1)[..., None]).squeeze(2).exp()
    counts = prior_counts(len(fits), len(log_prior), math.prod(examples.input_shape))
    found = pool_weights(likelihoods, weights, counts)
    log_probabilities = Answers(alone, found.log()[:, None].expand(alone.shape[:2])).mean()
    return choice._replace(
        pool=Pool({name: fit.expert for name, fit in fits.items()}, found, say),
        out_of_fold=OutOfFold(
            proba=log_probabilities.exp().numpy(),
            evidence=choice.out_of_fold.evidence,
            loss=-float(log_probabilities.gather(1, labels[:, None]).mean()),
        ),
    )


def prior_counts(n_experts: int, n_classes: int, n_columns: int) -> Tensor:
    """What the weights are shrunk to (1 + experts,), as counts: of the neighbours first."""
    of_neighbours = _COUNT_OF_NEIGHBOURS if has_many_columns(n_columns) else 0.0
    of_expert = _COUNT / max(1, n_classes - 1)
    return torch.tensor([of_neighbours] + n_experts * [of_expert], dtype=torch.float64)
