"""Fits that get Ctrl-C at any moment."""

import gc
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

import pnca
from pnca.training.loop import Run
from robustness.fits import assert_same, fitted, outcome, random_fit


class _CtrlC:
    """Ctrl-C at these moments, in seconds after the block begins, unless it has ended."""

    def __init__(self, moments):
        self.moments, self.sent, self.has_ended = moments, [], threading.Event()

    def _send(self):
        start = time.perf_counter()
        for moment in self.moments:
            if self.has_ended.wait(max(0, start + moment - time.perf_counter())):
                return
            self.sent.append(time.perf_counter())
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def _handle(self, *arguments):
        if not self.has_ended.is_set():
            signal.default_int_handler(*arguments)

    @contextmanager
    def during(self):
        """Send while the block runs; it may be ignored in a shell's background, so a handler is set."""
        with losses_allowed():
            before = signal.signal(signal.SIGINT, self._handle)
            thread = threading.Thread(target=self._send)
            thread.start()
            try:
                yield
            finally:
                try:
                    self._end(thread)
                finally:
                    signal.signal(signal.SIGINT, before)

    def _end(self, thread):
        """Send no more; what is sent just now may interrupt this too."""
        is_interrupted = False
        while thread.is_alive() or not self.has_ended.is_set():
            try:
                self.has_ended.set()
                thread.join()
            except KeyboardInterrupt:
                is_interrupted = True
        if is_interrupted:
            raise KeyboardInterrupt


@contextmanager
def losses_allowed():
    """Python loses what is raised in a finaliser or in a callback of the garbage collector, and says so.

    Hypothesis leaves such a callback behind. A Ctrl-C that is lost there is none for the fit.
    """
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    told = sys.unraisablehook

    def tell(unraisable):
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            told(unraisable)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = told
        gc.callbacks[:] = callbacks


def _fit(model, X, y, ctrl_c):
    """When each epoch ended, when the fit ended, and whether by Ctrl-C."""
    epochs, original, was_raised = [], Run.advance, False

    def advance(run):
        original(run)
        epochs.append(time.perf_counter())

    with patch.object(Run, "advance", advance), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with ctrl_c.during():
                model.fit(X, y)
        except KeyboardInterrupt:
            was_raised = True
    return epochs, time.perf_counter(), was_raised


def interrupted_fit(seed, folder, limit=2.0):
    """Ctrl-C ends a fit within ``limit`` seconds; what it learnt is kept, and the next fit is whole."""
    rng = np.random.RandomState(seed)
    model, X, y = random_fit(rng)
    start = time.perf_counter()
    whole = fitted(model, X, y)
    seconds = time.perf_counter() - start
    first = 1.1 * rng.rand() * seconds
    again = [first + 0.02 * rng.rand()] if rng.rand() < 0.25 else []
    case = f"seed {seed}, Ctrl-C after {first:.3f} of {seconds:.3f} s" + ", twice" * len(again)

    def block():
        return pnca.checkpoints(folder, every=3) if seed % 2 else nullcontext()

    found, ctrl_c = clone(model), _CtrlC([first, *again])
    try:
        with block():
            epochs, ended, was_raised = _fit(found, X, y, ctrl_c)
            if was_raised:
                raise KeyboardInterrupt  # as it would be: the files stay
    except KeyboardInterrupt:
        pass
    assert not ctrl_c.sent or ended - ctrl_c.sent[0] < limit, (
        f"{case}: it took {ended - ctrl_c.sent[0]:.1f} s"
    )
    assert was_raised or not getattr(found, "was_interrupted_", True), f"{case}: nothing was raised"
    if hasattr(found, "fitted_"):
        _assert_valid(found, whole, X, case)
    else:
        left = {name for name in vars(found) if name.endswith("_")} - {"n_features_in_"}
        assert was_raised, f"{case}: unfitted without an error"
        assert not left, f"{case}: half of a fit, {left}"
        had_learnt = epochs and epochs[0] < ctrl_c.sent[0]
        assert len(ctrl_c.sent) > 1 or not had_learnt, f"{case}: what was learnt is lost"
    with block():
        assert_same(outcome(fitted(model, X, y), X), outcome(whole, X), f"{case}, then fitted again")


def _assert_valid(found, whole, X, case):
    """A fitted model that Ctrl-C left is whole, or says that it is not and predicts."""
    if not found.was_interrupted_:  # it came too late
        return assert_same(outcome(found, X), outcome(whole, X), case)
    probabilities = found.predict_proba(X)
    assert np.isfinite(probabilities).all(), f"{case}: probabilities that are no numbers"
    assert np.allclose(probabilities.sum(axis=1), 1), f"{case}: probabilities that do not sum to one"
    assert 1 <= found.n_iter_ <= whole.n_iter_, f"{case}: {found.n_iter_} epochs"
    assert len(found.history_["loss"]) == found.n_iter_, f"{case}: a history of other epochs"
    assert found.history_["loss"] == whole.history_["loss"][: found.n_iter_], f"{case}: another history"
    assert not hasattr(found, "oof_proba_"), f"{case}: something was chosen"
    return None
