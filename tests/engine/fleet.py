"""Imitation engines, each with its `xorbit serve --attach`, and one `xorbit drive` over all: for campaigns."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import store_command_line_test as store_test

DEADLINE_S = 120


def ask(port: int, path: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def phase_seconds(port: int) -> dict[str, float]:
    """Of all pauses of a server, by what its /metrics calls the phases."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    found = [line for line in lines if line.startswith("xorbit_pause_phase_seconds_total{")]
    return {line.split('"')[1]: float(line.split()[1]) for line in found}


class Process:
    """A program that announces itself by a line of JSON with its port, and comes back under the same one."""

    def __init__(self, log: Path, *command: object) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        port = ["--port", str(self.port)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen([*self.command, *port], stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        if not line.endswith("}\n"):  # an error has several lines
            line += self.process.stdout.read()
            raise RuntimeError(f"{self.command[0:2]} did not start: {line}{self.log.read_text()[-2000:]}")
        self.port = json.loads(line)["port"]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


class Fleet:
    def __init__(self, options: argparse.Namespace, folder: Path, version_count: int) -> None:
        self.options = options
        self.folder = folder
        self.store = folder / "store"
        self.log = folder / "log"
        self.steps = store_test.write_run(folder, version_count + 1, options.megabytes)
        self.published = 0
        self.publish()
        unique = folder.name
        self.engines = []
        self.servers = []
        for i in range(options.engines):
            attachment = folder / f"engine-{i}.json"
            name = f"/xorbit-{unique}-{i}"
            names = ["--name", name, "--attachment", attachment, "--dialect", options.dialect, "--seed", i]
            self.engines.append(Process(self.log, options.engine, *names, *self.steps))
            self.engines[i].start()
            link = ["--engine", options.dialect, "--engine-url", f"http://127.0.0.1:{self.engines[i].port}"]
            names = ["--attach", attachment, "--store", self.store, "--engine-id", f"engine-{i}", "--threads", 1]
            self.servers.append(Process(self.log, options.xorbit, "serve", *names, *link, "--json"))
            self.servers[i].start()
        self.driver: subprocess.Popen[str] | None = None
        self.reports: list[dict] = []
        self.reader: threading.Thread | None = None

    def publish(self) -> int:
        step = self.steps[self.published]
        subprocess.run([self.options.xorbit, "publish", self.store, step], check=True, stdout=subprocess.DEVNULL)
        self.published += 1
        return self.published - 1

    def start_driver(self) -> None:
        urls = [f"http://127.0.0.1:{server.port}" for server in self.servers]
        command = [self.options.xorbit, "drive", "--store", self.store, "--engines", *urls, "--follow", "--json"]
        with self.log.open("a") as log:
            self.driver = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True)
        self.reader = threading.Thread(target=self.read, args=(self.driver,))
        self.reader.start()

    def read(self, driver: subprocess.Popen[str]) -> None:
        for line in driver.stdout:
            report = json.loads(line)
            if "engines" in report:
                self.reports.append(report)

    def kill_driver(self) -> None:
        self.driver.kill()
        self.driver.wait()
        self.reader.join()
        self.driver.stdout.close()

    def await_current(self, version: int) -> dict:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for report in reversed(self.reports):
                if report["version"] == version and report["all_current"]:
                    return report
            time.sleep(0.005)
        last = json.dumps(self.reports[-2:])
        raise AssertionError(f"never all at version {version}: {last}\n{self.log.read_text()[-3000:]}")

    def await_whole(self, version: int) -> None:
        """Until every engine computes with this version: the driver says nothing of engines that it finds current."""
        deadline = time.monotonic() + DEADLINE_S
        behind = list(self.engines)
        while behind:
            state = ask(behind[0].port, "/imitation_state")
            if state["version"] == version and not state["paused"] and not state["closed"]:
                behind.pop(0)
            elif time.monotonic() > deadline:
                last = json.dumps(self.reports[-2:])
                raise AssertionError(f"never at version {version}: {state}, {last}\n{self.log.read_text()[-3000:]}")
            else:
                time.sleep(0.005)

    def check_states(self, version: int) -> list[dict]:
        """What engines say of the step that they have computed last; a step that began before is waited out."""
        states = []
        for engine in self.engines:
            before = ask(engine.port, "/imitation_state")["steps"]
            state = ask(engine.port, "/imitation_state")
            deadline = time.monotonic() + DEADLINE_S
            while state["steps"] <= before + 1:
                if time.monotonic() > deadline:
                    raise AssertionError(f"an engine stands still: {state}")
                time.sleep(0.001)
                state = ask(engine.port, "/imitation_state")
            wrong = {key: state[key] for key in ("mixed", "torn", "other", "stale_labels", "stale_prefixes") if state[key]}
            if wrong or state["version"] != version:
                raise AssertionError(f"at version {version} an engine says {state}")
            states.append(state)
        return states

    def kill_one(self, chooser: random.Random) -> str:
        kind = chooser.choice(["engine", "server", "server", "driver"])
        if kind == "driver":
            self.kill_driver()
            self.start_driver()
            return kind
        index = chooser.randrange(len(self.engines))
        self.servers[index].kill()
        if kind == "engine":
            self.engines[index].kill()
            self.engines[index].start()
        self.servers[index].start()
        return kind

    def stop(self) -> None:
        if self.driver is not None:
            self.kill_driver()
        for process in [*self.servers, *self.engines]:
            process.kill()
        for attachment in self.folder.glob("engine-*.json"):
            attachment.unlink()
        for segment in Path("/dev/shm").glob(f"xorbit-{self.folder.name}-*"):
            segment.unlink()


def options_parser(description: str) -> argparse.ArgumentParser:
    """What every campaign is told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xorbit", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("engine", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--engines", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialect", default="sglang")
    parser.add_argument("--megabytes", type=int, default=1)
    return parser


@contextlib.contextmanager
def running_fleet(options: argparse.Namespace, version_count: int) -> Iterator[Fleet]:
    """A fleet for a campaign. At its end all weights are checked, and no engine may ever have computed with wrong ones."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(options, Path(folder), version_count)
        try:
            yield fleet
            for server in fleet.servers:
                checked = ask(server.port, "/weights_checker", {"action": "checksum"})
                if not checked["success"]:
                    raise AssertionError(checked)
        finally:
            fleet.stop()
        wrong = [line for line in fleet.log.read_text().splitlines() if line.startswith("WRONG")]
        if wrong:
            raise AssertionError("\n".join(wrong[:20]))
