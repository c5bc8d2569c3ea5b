"""The pool: neighbours and experts averaged by weights that are learnt out of fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.maths.pool import Answers, pooled
from pnca.maths.say import Say
from pnca.models.experts import Expert


@dataclass(frozen=True, eq=False)
class Pool:
    """Experts beside the neighbours, what each counts for, and how the say of all falls far from the data."""

    experts: dict[str, Expert]
    weights: Tensor  # (1 + experts,), float64, of the neighbours first
    say: Say | None  # None: the say is the same everywhere

    def answers(self, of_neighbours: Answers, inputs: Tensor, log_prior: Tensor) -> Answers:
        """Pool the members of the neighbour model (m, n, c) with the experts, for scaled inputs (n, ...)."""
        logs = of_neighbours.logs
        of_experts = [expert.log_probabilities(inputs).to(logs) for expert in self.experts.values()]
        m, weights = len(logs), self.weights
        of_members = torch.cat([(weights[:1] / m).expand(m), weights[1:]])
        everybody = torch.cat([logs, torch.stack(of_experts)])
        return pooled(everybody, of_members, log_prior, self.log_say(inputs))

    def log_shares(self, of_neighbours: Tensor, inputs: Tensor) -> Tensor:
        """Log share (n, n_train) of each training example, from its share in the neighbours' answer."""
        log_weights = self.weights.log().to(of_neighbours)
        shares = of_neighbours + log_weights[0]
        for log_weight, expert in zip(log_weights[1:], self.experts.values(), strict=True):
            of_expert = expert.log_shares(inputs)
            if of_expert is not None:
                shares = torch.logaddexp(shares, of_expert.to(shares) + log_weight)
        log_say = self.log_say(inputs)
        return shares if log_say is None else shares + log_say[:, None]

    def at(self, rows: NDArray[np.intp]) -> Pool:
        """The same with the training examples in another order."""
        return replace(self, experts={name: expert.at(rows) for name, expert in self.experts.items()})

    def attributes(self) -> dict[str, Any]:
        """What was learnt, by the names of estimators."""
        names = ("neighbours", *self.experts)
        return {"pool_weights_": dict(zip(names, self.weights.tolist(), strict=True))}

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one query takes beside those of the neighbours."""
        return max(expert.numbers_per_row for expert in self.experts.values())

    def log_say(self, inputs: Tensor) -> Tensor | None:
        """Log of the say (n,) that is left for scaled inputs (n, ...); None: all of it, everywhere."""
        return None if self.say is None else self.say.log(inputs)
