"""What every loader's tests share: an empty cache of their own, and no network."""

import socket

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PNCA_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Fail on a connection; what pytest.fail raises is no Exception, so no handler on the way hides it."""

    def refuse(*_):
        pytest.fail("a test tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def folder(tmp_path):
    (path := tmp_path / "data").mkdir()
    return path
