"""``pnca serve`` as a user starts and stops it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection

import pytest

import pnca
from pnca.exceptions import InvalidInputError
from pnca.interfaces.web.running import token_for


@pytest.fixture(scope="module")
def model_file(table_model, tmp_path_factory):
    return pnca.save(table_model, tmp_path_factory.mktemp("a secret folder") / "patients.pnca")


@pytest.fixture(scope="module")
def started(model_file):
    """``pnca serve`` with a token: the process, and the address that it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PNCA_TOKEN": "a-token-of-many-letters"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pnca", "serve", str(model_file), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line)
    assert found, line + (process.stderr.read() if process.poll() is not None else "")
    yield process, int(found[1]), found[2]
    if process.poll() is None:
        process.kill()
    process.communicate()


def ask(port, token, path, body=None):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("POST" if body else "GET", path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def wait_until_it_answers(port):
    until = time.monotonic() + 60
    while True:
        try:
            return ask(port, "", "/healthz")
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_serve__stops_at_sigterm_after_what_is_under_way(started, rows):
    process, port, token = started
    wait_until_it_answers(port)
    status, content = ask(port, token, "/api/info")
    assert status == 200
    assert json.loads(content)["title"] == "patients.pnca"
    assert b"secret" not in content
    body, found = json.dumps({"rows": rows * 1500}), []
    batch = threading.Thread(target=lambda: found.append(ask(port, token, "/api/predict", body)))
    batch.start()
    time.sleep(0.3)  # it was sent, and takes longer than that
    assert not found
    process.send_signal(signal.SIGTERM)
    batch.join(60)
    ((status, content),) = found
    assert status == 200
    assert len(json.loads(content)["predictions"]) == 18_000
    assert process.wait(30) == 0
    out, err = process.communicate()
    assert "Stopped." in out
    assert token not in err
    with pytest.raises(OSError, match="refused"):
        ask(port, token, "/healthz")


def test_serve__what_cannot_be_is_a_sentence(run, model_file, tmp_path, monkeypatch):
    monkeypatch.delenv("PNCA_TOKEN", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("serve", model_file, "--port", taken.getsockname()[1])
    assert (code, "name another --port" in err) == (1, True)
    code, _, err = run("serve", tmp_path / "none.pnca")
    assert (code, "There is no" in err) == (1, True)
    code, _, err = run("serve", model_file, "--images", tmp_path / "none")
    assert (code, "There is no folder" in err) == (1, True)
    code, _, err = run("serve", model_file, "--port", 0, "--max-error", 2)
    assert (code, "max_error" in err) == (1, True)
    monkeypatch.setenv("PNCA_TOKEN", "short")
    code, _, err = run("serve", model_file, "--port", 0)
    assert (code, "at least 16 characters" in err) == (1, True)
    monkeypatch.delenv("PNCA_TOKEN")
    code, _, err = run("serve", model_file, "--host", "no.such.host.invalid")
    assert (code, "no address" in err) == (1, True)


def test_token__is_made_for_other_addresses():
    assert token_for("127.0.0.1", None) is None
    assert token_for("localhost", None) is None
    assert token_for("127.0.0.1", "given") == "given"
    first, second = token_for("0.0.0.0", None), token_for("0.0.0.0", None)
    assert first != second
    assert min(len(first), len(second)) >= 40


def test_settings__refuse_an_open_server():
    from pnca.interfaces.web import ServerSettings

    with pytest.raises(InvalidInputError, match="token"):
        ServerSettings(host="192.168.1.7")
