import pickle

import pytest
import torch
from torch import nn

from conftest import needs_cuda
from pnca.exceptions import InvalidInputError
from pnca.networks import StackedModule


class SmallConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.norm(self.convolution(x)).relu().mean(dim=(2, 3)))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_stacked_module__equals_a_loop_over_modules():
    images = torch.randn(5, 1, 8, 8)
    network = StackedModule(SmallConvNet, sample=images)
    particles = network.draw(3, generator())
    expected = []
    for particle in particles:
        module = SmallConvNet()
        nn.utils.vector_to_parameters(particle, module.parameters())
        expected.append(module(images))
    torch.testing.assert_close(network(particles, images), torch.stack(expected))


def test_stacked_module__adds_a_linear_layer_to_the_classes():
    images = torch.randn(5, 1, 8, 8)
    network = StackedModule(SmallConvNet, sample=images, n_outputs=7)
    assert network(network.draw(2, generator()), images).shape == (2, 5, 7)


def test_stacked_module__draw_is_seeded_and_leaves_the_global_generator_alone():
    network = StackedModule(lambda: nn.Linear(3, 2), sample=torch.zeros(1, 3))
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first, again = network.draw(2, generator(1)), network.draw(2, generator(1))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])


def test_stacked_module__what_it_draws_and_keeps_frozen_is_seeded_too():
    class Projected(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("projection", torch.randn(3, 5))
            self.head = nn.Linear(5, 2)

        def forward(self, x):
            return self.head(x @ self.projection)

    first, again, other = (
        StackedModule(Projected, sample=torch.zeros(1, 3), seed=seed).template.projection
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_stacked_module__lazy_layers_are_sized_by_the_sample():
    network = StackedModule(lambda: nn.LazyLinear(2), sample=torch.zeros(1, 3))
    assert network.draw(2, generator()).shape == (2, 3 * 2 + 2)


def test_stacked_module__instance_is_redrawn_and_not_touched():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    before = [p.clone() for p in module.parameters()]
    network = StackedModule(module, sample=torch.zeros(1, 3))
    particles = network.draw(2, generator())
    assert not torch.equal(particles[0], particles[1])
    for parameter, old in zip(module.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_stacked_module__frozen_parameters_are_shared_and_kept():
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    network = StackedModule(module, sample=torch.zeros(1, 3))
    particles = network.draw(3, generator())
    assert particles.shape == (3, 4 * 2 + 2)
    x = torch.randn(6, 3)
    weight, bias = particles[1, :8].view(2, 4), particles[1, 8:]
    torch.testing.assert_close(network(particles, x)[1], module[0](x) @ weight.T + bias)


@needs_cuda
def test_stacked_module__pickled_on_a_gpu_loads_without_one():
    network = StackedModule(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), sample=torch.zeros(1, 3))
    network(network.draw(2, generator()).cuda(), torch.zeros(1, 3, device="cuda"))
    restored = pickle.loads(pickle.dumps(network))
    assert {p.device.type for p in restored.template.parameters()} == {"cpu"}


def test_stacked_module__dropout_differs_between_particles_in_training_and_is_off_in_prediction():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 1))
    network = StackedModule(module, sample=torch.zeros(1, 50))
    particles = network.draw(1, generator()).expand(2, -1)
    x = torch.ones(4, 50)
    trained = network(particles, x, training=True)
    assert not torch.equal(trained[0], trained[1])
    predicted = network(particles, x)
    assert torch.equal(predicted[0], predicted[1])
    assert torch.equal(predicted, network(particles, x))


def test_stacked_module__pretrained_batch_norm_uses_its_stored_statistics():
    norm = nn.BatchNorm1d(3)
    norm(torch.randn(100, 3) * 5 + 2)
    norm.num_batches_tracked.zero_()  # older checkpoints do not have this counter
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    network = StackedModule(nn.Sequential(norm, nn.Linear(3, 1)), sample=torch.zeros(1, 3))
    particles = network.draw(2, generator())
    x = torch.randn(8, 3)
    torch.testing.assert_close(network(particles, x, training=True)[:, :2], network(particles, x[:2]))
    normalised = (x - mean) / (variance + norm.eps).sqrt()
    torch.testing.assert_close(
        network(particles, x)[0], normalised @ particles[0, 6:9, None] + particles[0, 9]
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)),
            "Layer '1' is a batch normalisation whose statistics were never trained: .* nn.GroupNorm",
        ),
        (nn.Flatten(), "no trainable parameter"),
        (nn.Linear(4, 2), r"cannot take inputs of shape \(3,\)"),
        (lambda: "text", "must return a torch.nn.Module"),
        (nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (2, 2))), r"shape \(2, d\)"),
    ],
)
def test_stacked_module__says_what_is_wrong_with_the_module(module, message):
    with pytest.raises(InvalidInputError, match=message):
        StackedModule(module, sample=torch.zeros(2, 3))


def test_stacked_module__refuses_a_callable_that_returns_the_same_weights():
    module = nn.Linear(3, 2)
    network = StackedModule(lambda: module, sample=torch.zeros(1, 3))
    with pytest.raises(InvalidInputError, match="same weights for every particle"):
        network.draw(2, generator())


def test_stacked_module__refuses_an_instance_it_cannot_redraw():
    class Raw(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.scale

    with pytest.raises(InvalidInputError, match="pass a callable"):
        StackedModule(Raw(), sample=torch.zeros(2, 3))


def test_stacked_module__of_no_inputs_has_no_outputs_and_a_gradient_of_zero():
    network = StackedModule(
        lambda: nn.Sequential(nn.Unflatten(1, (4, 1)), Fragile()), sample=torch.zeros(2, 4)
    )
    particles = network.draw(2, generator()).requires_grad_()
    outputs = network(particles, torch.zeros(0, 4), training=True)
    assert outputs.shape == (2, 0, 3)
    (gradient,) = torch.autograd.grad(outputs.sum(), particles)
    assert (gradient == 0).all()


class Fragile(nn.Module):
    """Cannot reshape what is empty."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x.reshape(len(x), -1))
