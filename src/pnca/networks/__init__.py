"""Embedding networks, and the stacking of m copies of their parameters."""

from pnca.networks.base import ParticleNetwork
from pnca.networks.mlp import MLP
from pnca.networks.seeding import seeded
from pnca.networks.stacked import StackedModule

__all__ = ["MLP", "ParticleNetwork", "StackedModule", "seeded"]
