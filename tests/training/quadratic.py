"""An objective whose minimum and steps are known, for tests of the training loop."""

import numpy as np
import torch

from pnca.maths.stein import UNMIXED
from pnca.networks.stacked import mix_gradients
from pnca.training.loop import Run, Schedule
from pnca.training.objective import Evaluation

TARGET = torch.tensor([[1.0, -2.0], [3.0, 0.5]])


class Quadratic:
    """The squared distance of two particles from their targets."""

    uses_global_generator = False

    def __init__(self, sizes=(4,), mixing=UNMIXED):
        self.sizes, self.given_mixing = sizes, mixing
        self.prepared = []

    def batches(self, rng):
        return [np.arange(size) for size in self.sizes]

    def prepare(self, indices):
        self.prepared.append(indices.tolist())
        return indices

    def evaluate(self, particles, batch, mixing, generator):
        loss = (mix_gradients(particles, mixing) - TARGET).square().sum()
        return Evaluation(loss, loss.detach(), torch.tensor(float(len(batch))))

    def mixing(self, particles):
        return self.given_mixing


class Evaluated(Quadratic):
    """A quadratic whose evaluation is the test's."""

    def __init__(self, evaluation, **settings):
        super().__init__(**settings)
        self.evaluation = evaluation

    def evaluate(self, particles, batch, mixing, generator):
        return self.evaluation(particles, batch, generator) or super().evaluate(
            particles, batch, mixing, generator
        )


def begun(objective=None, *, particles=None, seed=0, rng=None, **schedule):
    schedule = Schedule(**{"max_epochs": 300, "learning_rate": 0.1, **schedule})
    particles = torch.zeros(2, 2) if particles is None else particles
    rng = np.random.RandomState(0) if rng is None else rng
    return Run(objective or Quadratic(), particles, schedule, rng, seed=seed)


def run(objective=None, *, wrappers=(), **settings):
    return begun(objective, **settings).train(wrappers)
