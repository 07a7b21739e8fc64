"""From a version's commit to samplers that serve it, and how long their gates are closed: over loopback, with real processes.

Two ways: one sampler that follows the stream by itself, and samplers taken along by `xorbit drive --follow`. The commit is
when version.json appears, looked for every 0.2 ms; served is when the gate has opened, by the sampler's own clock where a
receipt has it (driven), else when /get_weight_version says so, asked for every millisecond (following). Publishing is not
measured. The checkpoints are gone through forwards and backwards, so that a few real steps make many updates.

usage: serve_bench.py [--versions N] [--engines N] [--machine WHAT] XORBIT OUT.csv [CHECKPOINT CHECKPOINT...]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import store_command_line_test as store_test

DEADLINE_S = 60
COLUMNS = [
    "machine", "mode", "engines", "updates", "commit_to_served_ms_median", "commit_to_served_ms_max",
    "gate_closed_ms_median", "gate_closed_ms_max",
]  # fmt: skip


def ask(url: str, path: str, body: dict | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=30) as reply:
        return reply.read()


def start(stack: ExitStack, *command: object) -> subprocess.Popen[str]:
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    stack.callback(process.communicate)
    stack.callback(process.kill)
    return process


def serve(stack: ExitStack, *command: object) -> str:
    return json.loads(start(stack, *command).stdout.readline())["serving"]


class Store:
    def __init__(self, xorbit: str, folder: Path, checkpoints: list) -> None:
        self.xorbit = xorbit
        self.folder = folder
        self.checkpoints = checkpoints
        self.version = -1
        self.publish()

    def publish(self) -> tuple[int, float]:
        """The version, and when it was committed (monotonic seconds)."""
        self.version += 1
        last = len(self.checkpoints) - 1
        place = self.version % (2 * last)
        checkpoint = self.checkpoints[place if place <= last else 2 * last - place]
        times: list[float] = []
        watcher = threading.Thread(target=self.watch, args=(times,))
        watcher.start()
        subprocess.run([self.xorbit, "publish", self.folder, checkpoint], check=True, stdout=subprocess.DEVNULL)
        watcher.join()
        return self.version, times[0]

    def watch(self, times: list[float]) -> None:
        record = self.folder / "main" / f"v{self.version:06d}" / "version.json"
        deadline = time.monotonic() + DEADLINE_S
        while not os.path.exists(record) and time.monotonic() < deadline:
            time.sleep(0.0002)
        times.append(time.monotonic())


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def follow(store: Store, checkpoint: object, updates: int) -> dict:
    waits, pauses = [], []
    with ExitStack() as stack:
        url = serve(stack, store.xorbit, "serve", checkpoint, "--store", store.folder, "--follow", "--json")
        paused = 0.0
        for _ in range(updates):
            version, committed = -1, 0.0
            result: list[tuple[int, float]] = []
            publisher = threading.Thread(target=lambda found=result: found.append(store.publish()))
            wanted = str(store.version + 1)
            publisher.start()
            while json.loads(ask(url, "/get_weight_version"))["weight_version"] != wanted:
                time.sleep(0.001)
            served = time.monotonic()
            publisher.join()
            version, committed = result[0]
            waits.append(max(served - committed, 0) * 1e3)
            lines = ask(url, "/metrics").decode().splitlines()
            total = float(next(line for line in lines if line.startswith("xorbit_pause_seconds_total")).split()[1])
            pauses.append((total - paused) * 1e3)
            paused = total
        assert str(version) == wanted
    return {"mode": "follow", "engines": 1, "waits": waits, "pauses": pauses}


def drive(store: Store, checkpoint: object, updates: int, engines: int = 1) -> dict:
    waits, pauses = [], []
    with ExitStack() as stack:
        command = [store.xorbit, "serve", checkpoint, "--store", store.folder, "--threads", 1, "--json"]
        urls = [serve(stack, *command, "--engine-id", f"engine-{i}") for i in range(engines)]
        driver = start(stack, store.xorbit, "drive", "--store", store.folder, "--engines", *urls, "--follow", "--json")
        driver.stdout.readline()
        for _ in range(updates):
            _, committed = store.publish()
            report = json.loads(driver.stdout.readline())
            assert report["all_current"], report
            for url in urls:
                receipt = json.loads(ask(url, "/get_gpu_delta_info", {}))["participants"][0]
                timing = receipt["scheduler_timing"]
                waits.append(timing["resumed_ns"] * 1e-6 - committed * 1e3)
                pauses.append(timing["blocked_s"] * 1e3)
    return {"mode": "drive", "engines": engines, "waits": waits, "pauses": pauses}


def drive_several(engines: int) -> Callable[[Store, object, int], dict]:
    return lambda store, checkpoint, updates: drive(store, checkpoint, updates, engines)


def measure(options: argparse.Namespace, run: Callable[[Store, object, int], dict], checkpoints: list) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(options.xorbit, Path(folder) / "store", checkpoints)
        return run(store, checkpoints[0], options.versions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xorbit")
    parser.add_argument("out", type=Path)
    parser.add_argument("checkpoints", nargs="*", help="of a run, at least two; none: a made-up run of 1 MB")
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--machine", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = options.checkpoints or store_test.write_run(Path(folder), 3)
        write(options, [measure(options, run, checkpoints) for run in (follow, drive, drive_several(options.engines))])


def write(options: argparse.Namespace, results: list[dict]) -> None:
    is_new = not options.out.exists()
    with options.out.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        for result in results:
            numbers = [f(result[key]) for key in ("waits", "pauses") for f in (median, max)]
            row = [options.machine, result["mode"], result["engines"], options.versions, *(f"{n:.2f}" for n in numbers)]
            writer.writerow(row)
            print(*row)


if __name__ == "__main__":
    main()
