"""The layout of the fused kernels, which needs no GPU."""

import pytest
import torch

import scenarios
from pnca.accelerated.layout import UNIT, Layout, Side, Slots, is_joint, padded, width
from pnca.accelerated.problem import InputFactor, MassProblem

ANSWERS = [slice(0, 2), slice(2, 3), slice(3, 5)]


def problem(n=150, n_classes=3, d=3, n_a=None, **options):
    b = scenarios.cloud(5, n, d).float()
    a = b if n_a is None else scenarios.cloud(5, n_a, d, 1).float()
    return MassProblem(a, b, scenarios.labels(n, n_classes), n_classes, 2.0, ANSWERS, **options)


@pytest.mark.parametrize("n_a", [None, 70])
def test_slots__every_tile_has_one_class(n_a):
    q = problem(n_a=n_a)
    slots = Slots.of(q)
    assert torch.equal(slots.classes[slots.b].long(), q.labels)
    assert len(slots.b.unique()) == len(q.labels)
    assert slots.n_b % UNIT == slots.n_a % UNIT == 0
    tiles = slots.classes.view(-1, UNIT)
    assert (tiles == tiles[:, :1]).all()
    assert len(slots.a) == q.a.shape[1] <= slots.n_a
    assert torch.equal(slots.a, slots.b) == (n_a is None)


def test_padded__points_are_in_their_slots_and_nothing_else_is():
    q = problem()
    slots = Slots.of(q)
    points = padded(q.b, slots.b, slots.n_b)
    assert torch.equal(points[:, slots.b], q.b)
    assert points.count_nonzero() == q.b.count_nonzero()


def test_layout__padding_has_no_weight():
    q = problem(log_weights=torch.rand(3, 150).log())
    slots = Slots.of(q)
    weights = Layout.of(q, slots).weights
    torch.testing.assert_close(weights[:, slots.b], q.log_weights.exp())
    assert weights.count_nonzero() == q.log_weights.numel()


def test_layout__groups_are_those_of_the_points_or_the_points_themselves():
    groups = torch.arange(150) % 40 - 7
    q = problem(leave_one_out=True, groups=groups)
    slots = Slots.of(q)
    same = Layout.of(q, slots).groups[slots.b]
    assert torch.equal(same[:, None] == same, groups[:, None] == groups)
    alone = Layout.of(problem(leave_one_out=True), slots).groups
    assert len(alone.unique()) == slots.n_b
    assert Layout.of(problem(), slots).groups is None


def test_layout__members_of_a_size_go_together():
    q = problem()
    found = Layout.of(q, Slots.of(q)).by_size()
    assert [(size, starts.tolist(), numbers.tolist()) for size, starts, numbers in found] == [
        (1, [2], [1]),
        (2, [0, 3], [0, 2]),
    ]


def test_layout__products_of_the_factor_are_its_logarithm():
    x, y = torch.rand(70, 5), torch.rand(150, 5)
    q = problem(n_a=70, input_factor=InputFactor(x, y, 2.0, 0.7))
    slots = Slots.of(q)
    factor = Layout.of(q, slots).factor
    log2 = (
        factor.log2_weight + factor.x.float() @ factor.y.float().T - factor.norms_x[:, None] - factor.norms_y
    )
    expected = 0.7 * (1 - torch.cdist(x, y).square() / 2.0)
    got = log2[slots.a][:, slots.b] * torch.log(torch.tensor(2.0))
    torch.testing.assert_close(got, expected, rtol=0, atol=5e-3)  # half precision
    assert factor.transposed().transposed() == factor


@pytest.mark.parametrize("d", [1, 10, 11, 16, 17])
def test_side__products_of_the_parts_are_the_log_kernel(d):
    z = scenarios.cloud(2, 30, d).float()
    side = Side.of(z, z.mean(dim=(0, 1)), 1.0)
    parts_1, parts_2 = side.parts_1.float(), side.parts_2.float()
    assert parts_1.shape[2] == width(d)
    products = parts_1 @ parts_2.mT
    if not is_joint(d):
        products = products + parts_2 @ parts_1.mT + parts_1 @ parts_1.mT
    log2_kernel = products + side.norms[:, :, None] + side.norms[:, None, :]
    expected = -torch.cdist(z.double(), z.double()).square() / 2
    torch.testing.assert_close(log2_kernel.double(), expected, rtol=0, atol=2e-5)
    torch.testing.assert_close(side.points(d), z - z.mean(dim=(0, 1)), rtol=0, atol=1e-5)


def test_side__far_points_are_drawn_in():
    z = torch.tensor([[[1e30, 0.0], [0.0, 1.0]]])
    points = Side.of(z, torch.zeros(2), 1.0).points(2)
    torch.testing.assert_close(points, torch.tensor([[[1000.0, 0.0], [0.0, 1.0]]]))
