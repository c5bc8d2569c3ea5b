"""Servers of a model: in this process without a network, or in a thread at a port of this machine."""

import io
import socket
import threading
import time
from contextlib import contextmanager

import numpy as np

from pnca.interfaces.web import Limits, ServerSettings, create_app


def image(label, rng):
    """Noise of 8 by 8 grey pixels with a bright upper half (``up``) or lower half (``down``)."""
    pixels = rng.integers(0, 90, (8, 8))
    pixels[slice(0, 4) if label == "up" else slice(4, 8)] += 150
    return pixels.astype(np.uint8)


def png(pixels):
    from PIL import Image

    target = io.BytesIO()
    Image.fromarray(pixels).save(target, format="PNG")
    return target.getvalue()


@contextmanager
def asked(model, limits=None, **settings):
    """A client of the application, within this process."""
    from starlette.testclient import TestClient

    app = create_app(model, ServerSettings(limits=limits or Limits(), **settings))
    with TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        yield client


@contextmanager
def served(model, **settings):
    """A server in a thread of this process: its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app = create_app(model, ServerSettings(port=port, **settings))
        import uvicorn

        config = uvicorn.Config(app, log_level="critical", access_log=False, ws="none", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until = time.monotonic() + 30
        while not server.started and time.monotonic() < until:
            time.sleep(0.02)
        assert server.started
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(30)
