"""Slow loops written straight from the equations: what every fast function must equal."""

import math

import torch
from torch import Tensor


def sq_distance(a: Tensor, b: Tensor) -> Tensor:
    return sum(((a[k] - b[k]) ** 2 for k in range(len(a))), start=torch.zeros((), dtype=a.dtype))


def latent_kernel(a: Tensor, b: Tensor, bandwidth: float) -> Tensor:
    return torch.exp(-sq_distance(a, b) / bandwidth)


def expected_kernel(a: Tensor, b: Tensor, bandwidth: float) -> Tensor:
    """Equation 3 with particles: K_ij = 1/(m m') sum_l sum_l' k(a_il, b_jl')."""
    (m_a, n_a, _), (m_b, n_b, _) = a.shape, b.shape
    K = torch.zeros(n_a, n_b, dtype=a.dtype)
    for i in range(n_a):
        for j in range(n_b):
            for k in range(m_a):
                for l in range(m_b):  # noqa: E741
                    K[i, j] += latent_kernel(a[k, i], b[l, j], bandwidth) / (m_a * m_b)
    return K


def approximate_kernel(a: Tensor, b: Tensor, frequencies: Tensor) -> Tensor:
    """ReLU of the inner product of particle-averaged cosines and sines."""

    def mean_features(z: Tensor, i: int) -> list[Tensor]:
        n_frequencies = frequencies.shape[1]
        features = [torch.zeros((), dtype=z.dtype) for _ in range(2 * n_frequencies)]
        for particle in z:
            for f in range(n_frequencies):
                phase = sum(particle[i, k] * frequencies[k, f] for k in range(z.shape[2]))
                features[f] = features[f] + torch.cos(phase) / math.sqrt(n_frequencies) / len(z)
                features[n_frequencies + f] += torch.sin(phase) / math.sqrt(n_frequencies) / len(z)
        return features

    K = torch.zeros(a.shape[1], b.shape[1], dtype=a.dtype)
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            pairs = zip(mean_features(a, i), mean_features(b, j), strict=True)
            K[i, j] = max(sum(x * y for x, y in pairs), torch.zeros((), dtype=a.dtype))
    return K


def class_probabilities(
    K: Tensor, labels: Tensor, n_classes: int, background: float, prior: Tensor, weights: Tensor
) -> Tensor:
    """p_ic = (S_ic + alpha pi_c) / (S_i + alpha)."""
    p = torch.zeros(K.shape[0], n_classes, dtype=K.dtype)
    for i in range(K.shape[0]):
        total = sum(weights[j] * K[i, j] for j in range(K.shape[1])) + background
        for c in range(n_classes):
            mass = sum(weights[j] * K[i, j] for j in range(K.shape[1]) if labels[j] == c)
            p[i, c] = (mass + background * prior[c]) / total
    return p


def nca_loss(z: Tensor, labels: Tensor, bandwidth: float) -> Tensor:
    """Equations 1 and 2, one point at a time."""
    loss = torch.zeros((), dtype=z.dtype)
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        total = sum(latent_kernel(z[i], z[j], bandwidth) for j in others)
        same = sum(latent_kernel(z[i], z[j], bandwidth) for j in others if labels[j] == labels[i])
        loss = loss - torch.log(same / total)
    return loss


def pnca_loss(z: Tensor, labels: Tensor, bandwidth: float) -> Tensor:
    """Equations 3, 4 and 2: the expected kernel in the place of the latent one."""
    K = expected_kernel(z, z, bandwidth)
    loss = torch.zeros((), dtype=z.dtype)
    for i in range(z.shape[1]):
        others = [j for j in range(z.shape[1]) if j != i]
        same = sum(K[i, j] for j in others if labels[j] == labels[i])
        loss = loss - torch.log(same / sum(K[i, j] for j in others))
    return loss


def median_bandwidth(particles: Tensor) -> float:
    m = len(particles)
    pairs = sorted(float(sq_distance(particles[i], particles[j])) for i in range(m) for j in range(i))
    middle = len(pairs) // 2
    median = pairs[middle] if len(pairs) % 2 else (pairs[middle - 1] + pairs[middle]) / 2
    return median / math.log(m)


def functional_gradient(particles: Tensor, gradients: Tensor) -> Tensor:
    """Algorithm 1: phi(w_i) = sum_l kappa(w_i, w_l) grad_l."""
    h = median_bandwidth(particles)
    phi = torch.zeros_like(particles)
    for i in range(len(particles)):
        for j in range(len(particles)):
            phi[i] += latent_kernel(particles[i], particles[j], h) * gradients[j]
    return phi


def svgd_direction(particles: Tensor, scores: Tensor) -> Tensor:
    """Liu & Wang's Equation 8; the gradient of kappa is left to autograd, and so is its sign."""
    m, h = len(particles), median_bandwidth(particles)
    phi = torch.zeros_like(particles)
    for i in range(m):
        for j in range(m):
            w_j = particles[j].clone().requires_grad_()
            kappa = latent_kernel(w_j, particles[i], h)
            (grad_kappa,) = torch.autograd.grad(kappa, w_j)
            phi[i] += (kappa.detach() * scores[j] + grad_kappa) / m
    return phi


def class_masses(
    a: Tensor,
    b: Tensor,
    labels: Tensor,
    n_classes: int,
    bandwidth: float,
    answers: list[slice],
    weights: Tensor,
    excluded: Tensor,
    log_factor: Tensor,
) -> Tensor:
    """S_ric: the sum over points j of class c, not excluded for i, of w_rj f_ij K^r_ij."""
    masses = torch.zeros(len(answers), a.shape[1], n_classes, dtype=a.dtype)
    for r, particles in enumerate(answers):
        K = expected_kernel(a[particles], b[particles], bandwidth)
        for i in range(a.shape[1]):
            for j in range(b.shape[1]):
                if not excluded[i, j]:
                    masses[r, i, labels[j]] += weights[r, j] * log_factor[i, j].exp() * K[i, j]
    return masses


def mean_features(z: Tensor, points: Tensor, log_scales: Tensor, bandwidth: float) -> Tensor:
    """Positive features (n, f) of clouds (m, n, d), averaged over their particles."""
    features = torch.zeros(z.shape[1], len(points), dtype=z.dtype)
    for i in range(z.shape[1]):
        for k in range(len(points)):
            for particle in z:
                sq_dist = sq_distance(particle[i], points[k])
                features[i, k] += torch.exp(log_scales[k] - 2 / bandwidth * sq_dist) / len(z)
    return features


def forest_answer(
    leaf_of_input: Tensor,
    leaves: Tensor,
    labels: Tensor,
    weights: Tensor,
    n_classes: int,
    temperature: float,
) -> Tensor:
    """A forest by its leaves (t,), (n, t): shares of the classes, leaf by leaf; an empty one asks all."""
    n, t = leaves.shape
    total = torch.zeros(n_classes, dtype=weights.dtype)
    for tree in range(t + 1):
        there = [j for j in range(n) if tree < t and leaves[j, tree] == leaf_of_input[tree]]
        if sum(float(weights[j]) for j in there) == 0:
            there = list(range(n))
        in_leaf = sum(weights[j] for j in there)
        for j in there:
            total[labels[j]] += weights[j] / in_leaf / (t + 1)
    sharpened = total ** (1 / temperature)
    return sharpened / sharpened.sum()


def pooled_answer(
    neighbours: Tensor, line: Tensor, forest: Tensor, pool_weights: Tensor, say: float, prior: Tensor
) -> Tensor:
    """g (w_0 mean of the members + w_1 line + w_2 forest) + (1 - g) pi, of classes (c,)."""
    mean = sum(neighbours, start=torch.zeros_like(prior)) / len(neighbours)
    together = pool_weights[0] * mean + pool_weights[1] * line + pool_weights[2] * forest
    return say * together + (1 - say) * prior
