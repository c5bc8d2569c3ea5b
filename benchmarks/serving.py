"""Requests per second of ``pnca serve``, and how long each takes, against the same model called directly.

    python benchmarks/serving.py --requests 400

A model of 400 rows of breast cancer is served by another process on this machine. Clients ask for single
rows, one after the other, each with a connection of its own that stays open. Directly, one row after another
goes the same way without a server (read, predict, decide), half of them before and half after the clients.
Nothing is sent to any other address than 127.0.0.1, and each measurement stops after so many requests or
seconds. Each line of ``results/serving.csv`` is a number of clients; zero clients is the direct call.
Processor time (of the server, or of the direct call) says what a busy machine hides.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "serving.csv"
CLIENTS = (1, 8, 32)
N_TRAIN = 400


def make_model(folder: Path, **parameters: Any) -> tuple[Path, list[dict[str, float]]]:
    """A model file, and rows to ask about."""
    from sklearn.datasets import load_breast_cancer

    import pnca

    found = load_breast_cancer(as_frame=True)
    order = np.random.default_rng(0).permutation(len(found.target))
    train, new = order[:N_TRAIN], order[N_TRAIN:]
    model = pnca.PNCAClassifier(random_state=0, **parameters)
    model.fit(found.data.iloc[train], found.target.to_numpy()[train])
    return pnca.save(model, folder / "model.pnca"), found.data.iloc[new].to_dict("records")


def called_directly(path: Path, rows: list[dict[str, float]], n: int, seconds: float) -> list[float]:
    """Seconds of each of n rows, read, predicted and decided without a server."""
    import pnca
    from pnca.workflows.answers import Scores, Settings, checked_inputs, scores_of
    from pnca.workflows.batches import RowsTable, answered, batch_of_table, table_parts

    model, settings, found = pnca.load(path), Settings(n_examples=5), []
    end = time.perf_counter() + seconds
    for i in range(n):
        start = time.perf_counter()
        inputs, parts = table_parts(model, RowsTable([rows[i % len(rows)]]), 10)
        scores = [scores_of(model, checked_inputs(model, part.X), 5) for part in parts]
        answered(model, batch_of_table(inputs, parts, Scores.joined(scores)), settings)
        found.append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return found


def asked(
    port: int, rows: list[dict[str, float]], n_clients: int, n: int, seconds: float
) -> tuple[list[float], float]:
    """Seconds of each request of several clients, n in all, and of all together."""
    taken: list[list[float]] = [[] for _ in range(n_clients)]
    ready, end = threading.Barrier(n_clients + 1), time.perf_counter() + seconds

    def client(number: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        ready.wait()
        for i in range(number, n, n_clients):
            body = json.dumps({"rows": [rows[i % len(rows)]]})
            start = time.perf_counter()
            connection.request("POST", "/api/predict", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the server answered {answer.status}")
            taken[number].append(time.perf_counter() - start)
            if time.perf_counter() > end:
                break
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return [one for of_client in taken for one in of_client], time.perf_counter() - start


def serve(path: Path) -> tuple[subprocess.Popen[str], int]:
    """A server in a process of its own, and its port."""
    environment = {name: value for name, value in os.environ.items() if name != "PNCA_TOKEN"}
    command = [sys.executable, "-m", "pnca", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
    if found is None:
        raise RuntimeError("the server did not start")
    for _ in range(200):
        try:
            connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=10)
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            break
        except OSError:
            time.sleep(0.1)
    return process, int(found[1])


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has taken, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(clients: int, taken: list[float], seconds: float, cpu: float, directly: float) -> dict[str, float]:
    """A line of the results; the ratio is of requests per second to those of the direct call."""
    per_second = len(taken) / seconds
    return {
        "clients": clients,
        "requests": len(taken),
        "per_second": round(per_second, 1),
        "p50_ms": round(1000 * float(np.quantile(taken, 0.5)), 2),
        "p99_ms": round(1000 * float(np.quantile(taken, 0.99)), 2),
        "cpu_ms": round(1000 * cpu / len(taken), 2),
        "ratio": round(per_second / directly, 2),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=400, help="of each number of clients")
    parser.add_argument("--seconds", type=float, default=60, help="after which a measurement stops")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true", help="a small model, to see that it works")
    chosen = parser.parse_args(arguments)
    parameters = {"n_particles": 2, "max_epochs": 2} if chosen.tiny else {}
    with tempfile.TemporaryDirectory() as folder:
        path, rows = make_model(Path(folder), **parameters)
        called_directly(path, rows, 5, chosen.seconds)
        half, measured, start = -(-chosen.requests // 2), {}, cpu_seconds(os.getpid())
        taken = called_directly(path, rows, half, chosen.seconds)
        cpu = cpu_seconds(os.getpid()) - start
        process, port = serve(path)
        try:
            asked(port, rows, 1, 5, chosen.seconds)
            for n_clients in chosen.clients:
                start = cpu_seconds(process.pid)
                found = asked(port, rows, n_clients, chosen.requests, chosen.seconds)
                measured[n_clients] = (*found, cpu_seconds(process.pid) - start)
        finally:
            process.terminate()
            process.wait(60)
            process.communicate()
        start = cpu_seconds(os.getpid())
        taken += called_directly(path, rows, half, chosen.seconds)
        cpu += cpu_seconds(os.getpid()) - start
    directly = len(taken) / sum(taken)
    lines = [line(0, taken, sum(taken), cpu, directly)]
    lines += [line(n_clients, *found, directly) for n_clients, found in measured.items()]
    for one in lines:
        one["cpu_ratio"] = round(one["cpu_ms"] / max(lines[0]["cpu_ms"], 1e-9), 2)
    with chosen.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    for one in lines:
        print(one)


if __name__ == "__main__":
    main()
