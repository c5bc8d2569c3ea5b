"""The parts of every answer add up to it, and what-if is what a slow recomputation finds."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

import reference
from models import NEIGHBOUR, digits, make, noisy
from pnca.models.ledger import ledger_of

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")

X, Y = noisy()
FAR = np.vstack([X[:6] + 0.3, X[:2] + 4, X[:1] + 100]).astype(np.float32)


def ledger(model, queries, k=3, training=None):
    return ledger_of(model.fitted_, model._check_inputs(queries), "cpu", k, training)


def layers():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))


def table():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(
        {"a": X[:, 0], "b": np.where(X[:, 1] > 1, "x", "y"), "c": np.where(Y, np.nan, X[:, 2])}
    )


def new_values():
    found = table()[:6].copy()
    found.loc[0, "b"] = "never seen"
    return found


CASES = {
    **{name: (lambda name=name: make(name, max_epochs=4).fit(X, Y), FAR) for name in NEIGHBOUR},
    "module": (lambda: make("PNCA", module=layers, max_epochs=3, novelty=True).fit(X, Y), FAR),
    "images": (lambda: make("PNCA", max_epochs=3, n_particles=4).fit(*digits()), digits()[0][:5] + 3),
    "groups": (lambda: make("PNCA pooled", max_epochs=3).fit(X, Y, groups=np.arange(40) // 2), FAR),
    "class weights": (lambda: make("PNCA pooled", max_epochs=3, class_weight={0: 1, 1: 5}).fit(X, Y), FAR),
    "no folds": (lambda: make("PNCA", max_epochs=3, n_folds=None).fit(X, Y), FAR),
    "no novelty": (lambda: make("PNCA pooled", max_epochs=3, novelty=False).fit(X, Y), FAR),
    "line alone": (lambda: make("PNCA", max_epochs=3, experts=["linear"]).fit(X, Y), FAR),
    "forest alone": (lambda: make("PNCA", max_epochs=3, experts=["forest"]).fit(X, Y), FAR),
    "no background": (lambda: make("PNCA", max_epochs=3, background=0.0).fit(X, Y), FAR),
    "three classes": (lambda: make("PNCA pooled", max_epochs=3).fit(X, np.arange(40) % 3), FAR),
    "positive as one": (
        lambda: make("PNCA positive", max_epochs=3, expectation="cross", novelty=False).fit(X, Y),
        FAR,
    ),
    "table": (lambda: make("PNCA pooled", max_epochs=3).fit(table(), Y), None),
}


@functools.cache
def case(name):
    made, queries = CASES[name]
    return made(), new_values() if queries is None else queries


@pytest.mark.parametrize("name", CASES)
def test_parts__add_up_to_the_probability(name):
    model, queries = case(name)
    found, proba = ledger(model, queries), model.predict_proba(queries)
    parts = found.named + found.others + found.line + found.nobody
    np.testing.assert_allclose(parts, proba, rtol=0, atol=1e-9)  # each is computed on its own
    assert min(part.min() for part in (found.named, found.others, found.line, found.nobody)) >= 0
    assert (found.line.max() > 0) == ("linear" in found.experts)


@pytest.mark.parametrize("name", ["PNCA", "PNCA pooled", "PNCA positive", "table"])
def test_named_examples__are_those_of_neighbors(name):
    model, queries = case(name)
    found = ledger(model, queries)
    rows, shares = model.neighbors(queries, k=3)
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_array_equal(found.shares, shares)


def test_answers__of_few_rows_at_a_time_are_the_same(monkeypatch):
    from pnca.models import fitted

    model, queries = case("PNCA pooled")
    whole = ledger(model, queries)
    monkeypatch.setattr(fitted, "PREDICTION_NUMBERS", 200)
    for all_rows, few in zip(whole, ledger(model, queries), strict=True):
        if isinstance(all_rows, np.ndarray):
            np.testing.assert_allclose(few, all_rows, rtol=1e-12, atol=1e-15)


def slowly(model, queries, labels, weights):
    """Answers of a pooled model by loops, from its embeddings, leaves and line."""
    reader = model.fitted_.reader
    pool, support, prior = reader.pool, reader.support, reader.prior
    inputs = model.fitted_.scaler.apply(torch.from_numpy(queries)).double()
    embedded, forest = torch.from_numpy(model.embed(queries)), pool.experts["forest"]
    factors = reader.novelty.log(inputs)[:, None] + support.input_factor.log(inputs, support.inputs.double())
    found = []
    for i in range(len(queries)):
        members = []
        for a, b in zip(embedded, support.embeddings, strict=True):
            K = [float(reference.latent_kernel(a[i], z, reader.kernel.bandwidth)) for z in b]
            row = torch.tensor(K, dtype=torch.float64)[None] * factors[i].exp()
            members.append(
                reference.class_probabilities(row, labels, len(prior), support.background, prior, weights)[0]
            )
        of_forest = reference.forest_answer(
            forest.trees.leaves(inputs[i : i + 1])[0],
            forest.of_examples,
            labels,
            weights,
            len(prior),
            forest.temperature,
        )
        line = pool.experts["linear"].log_probabilities(inputs[i : i + 1])[0].exp()
        say = float(pool.say.log(inputs[i : i + 1]).exp())
        found.append(reference.pooled_answer(members, line, of_forest, pool.weights, say, prior))
    return torch.stack(found).numpy()


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 3.0}])
def test_what_if__is_what_a_slow_recomputation_finds(class_weight, monkeypatch):
    from pnca.models import experts

    monkeypatch.setattr(experts, "_TREES", 4)
    monkeypatch.setattr(experts, "_TREES_IN_FOLDS", 4)
    model = make("PNCA pooled", max_epochs=3, class_weight=class_weight).fit(X, Y)
    queries = FAR[:7]
    labels = model.fitted_.reader.support.labels.clone()
    weights = model.fitted_.reader.support.weights.clone()
    np.testing.assert_allclose(
        slowly(model, queries, labels, weights), model.predict_proba(queries), atol=1e-9
    )
    cases = model.explain(queries)
    gone = sorted({example.row for case in cases for example in case.examples})
    gone += [row for row in range(40) if Y[row] == 0 and row not in gone][:8]
    without = weights.clone()
    without[gone] = 0
    np.testing.assert_allclose(
        cases.without(gone).after, slowly(model, queries, labels, without), rtol=0, atol=1e-9
    )
    others = {row: 1 - int(Y[row]) for row in gone[:5]}
    for row, label in others.items():
        weights[row] *= model.class_weight_[label] / model.class_weight_[labels[row]]
        labels[row] = label
    np.testing.assert_allclose(
        cases.relabelled(others).after, slowly(model, queries, labels, weights), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("name", ["NCA", "PNCA cross", "PNCA orthogonal", "positive as one"])
def test_what_if__of_one_member_takes_the_share_away(name):
    """Without example j of class c, (S_c + a pi_c) / (S + a) becomes (p_c - q_j) / (1 - q_j)."""
    model, queries = case(name)
    cases = model.explain(queries)
    for explained in cases:
        (row, _, label, share, *_) = explained.examples[0]
        expected = explained.proba.copy()
        expected[model.classes_.tolist().index(label)] -= share
        after = explained.without([row]).after[0]
        np.testing.assert_allclose(after * (1 - share), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["PNCA positive", "module", "table", "images", "PNCA pooled"])
def test_what_if__without_a_change_is_the_answer(name):
    model, queries = case(name)
    nothing = model.explain(queries).without([])
    np.testing.assert_allclose(nothing.after, nothing.before, rtol=0, atol=1e-12)
