"""A fleet under load: imitation engines with their servers, taken from version to version by one driver while versions come.

First whole: every version, with one driver line each, and what the driver calls current must be what the engine computes with.
Then with members that are killed (kill -9) at random: engines, servers and the driver, each of which is started again. After
every eight kills all must stand at the newest version, byte for byte, and no engine may ever have computed with wrong weights.

usage: fleet_campaign.py XORBIT IMITATION_ENGINE [--engines N] [--versions N] [--kills N] [--seed N] [--dialect sglang|vllm]
                         [--csv OUT.csv [--machine WHAT]]
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import store_command_line_test as store_test

DEADLINE_S = 120
KILLS_A_VERSION = 8  # then the fleet must be whole again
COLUMNS = [
    "machine", "campaign", "engines", "versions", "killed_engines", "killed_servers", "killed_drivers", "wrong_steps",
    "round_ms_median", "pause_ms_median", "pause_ms_max",
    "gate_ms_mean", "fence_ms_mean", "flush_ms_mean", "apply_ms_mean", "check_ms_mean", "resume_ms_mean",
]  # fmt: skip


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


def note(options: argparse.Namespace, row: dict) -> None:
    """Adds a row to the table, once what it tells has been checked: no step was wrong."""
    if options.csv is None:
        return
    is_new = not options.csv.exists()
    with options.csv.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow({"machine": options.machine, "engines": options.engines, "wrong_steps": 0, **row})


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
        if not line:
            raise RuntimeError(f"{self.command[0:2]} did not start: {self.log.read_text()[-2000:]}")
        self.port = json.loads(line)["port"]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


class Fleet:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.store = folder / "store"
        self.log = folder / "log"
        self.steps = store_test.write_run(folder, options.versions + -(-options.kills // KILLS_A_VERSION) + 1)
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


def run_whole(fleet: Fleet) -> None:
    pauses, rounds = [], []
    before = [phase_seconds(server.port) for server in fleet.servers]
    for _ in range(fleet.options.versions):
        version = fleet.publish()
        report = fleet.await_current(version)
        fleet.check_states(version)
        pauses += [engine["pause_ms"] for engine in report["engines"]]
        rounds.append(report["seconds"] * 1e3)
    phases = dict.fromkeys(before[0], 0.0)
    for server, at_start in zip(fleet.servers, before, strict=True):
        for phase, seconds in phase_seconds(server.port).items():
            phases[phase] += (seconds - at_start[phase]) * 1e3
    if sum(phases.values()) > sum(pauses):
        raise AssertionError(f"engines stood still for longer than the driver was told, {sum(pauses)} ms: {phases}")
    means = {phase: f"{total / len(pauses):.2f}" for phase, total in phases.items()}
    pauses.sort()
    rounds.sort()
    row = {"campaign": "whole", "versions": fleet.options.versions, "round_ms_median": f"{rounds[len(rounds) // 2]:.2f}"}
    row |= {"pause_ms_median": f"{pauses[len(pauses) // 2]:.2f}", "pause_ms_max": f"{pauses[-1]:.2f}"}
    note(fleet.options, row | {f"{phase}_ms_mean": mean for phase, mean in means.items()})
    print(
        f"whole: {len(fleet.engines)} engines x {fleet.options.versions} versions, 0 wrong steps; round median"
        f" {row['round_ms_median']} ms, pause median {row['pause_ms_median']} ms, most {row['pause_ms_max']} ms; means in ms: "
        + ", ".join(f"{phase} {mean}" for phase, mean in means.items()),
        flush=True,
    )


def run_killed(fleet: Fleet) -> None:
    chooser = random.Random(fleet.options.seed)
    kills = dict.fromkeys(("engine", "server", "driver"), 0)
    version = fleet.published - 1
    for kill in range(fleet.options.kills):
        if kill % KILLS_A_VERSION == 0:
            version = fleet.publish()
        time.sleep(chooser.random() * 0.1)
        kills[fleet.kill_one(chooser)] += 1
        if (kill + 1) % KILLS_A_VERSION == 0 or kill + 1 == fleet.options.kills:
            fleet.await_whole(version)
            fleet.check_states(version)
    if fleet.options.kills:
        killed = {f"killed_{kind}s": count for kind, count in kills.items()}
        note(fleet.options, {"campaign": "killed", "versions": version - fleet.options.versions, **killed})
    print(f"killed: {kills}, all at version {version} in the end, 0 wrong steps", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xorbit", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("engine", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--engines", type=int, default=3)
    parser.add_argument("--versions", type=int, default=4)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dialect", default="sglang")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--machine", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(options, Path(folder))
        try:
            fleet.start_driver()
            run_whole(fleet)
            run_killed(fleet)
            for server in fleet.servers:
                checked = ask(server.port, "/weights_checker", {"action": "checksum"})
                if not checked["success"]:
                    raise AssertionError(checked)
        finally:
            fleet.stop()
        wrong = [line for line in fleet.log.read_text().splitlines() if line.startswith("WRONG")]
        if wrong:
            raise AssertionError("\n".join(wrong[:20]))


if __name__ == "__main__":
    main()
