"""A fleet under load: imitation engines with their servers, taken from version to version by one driver while versions come.

First whole: every version, with one driver line each, and what the driver calls current must be what the engine computes with.
Then with members that are killed (kill -9) at random: engines, servers and the driver, each of which is started again. After
every eight kills all must stand at the newest version, byte for byte, and no engine may ever have computed with wrong weights.

With --every SECONDS versions then come at that pace, and what is told is how long steps take meanwhile, over how long they take
before and after, when there is nothing to update.

usage: fleet_campaign.py XORBIT IMITATION_ENGINE [--engines N] [--versions N] [--kills N] [--seed N] [--dialect sglang|vllm]
                         [--megabytes N] [--every SECONDS] [--csv OUT.csv [--machine WHAT]]
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from pathlib import Path

from fleet import Fleet, ask, options_parser, phase_seconds, running_fleet

KILLS_A_VERSION = 8  # then the fleet must be whole again
COLUMNS = [
    "machine", "campaign", "engines", "versions", "killed_engines", "killed_servers", "killed_drivers", "wrong_steps",
    "round_ms_median", "pause_ms_median", "pause_ms_max",
    "gate_ms_mean", "fence_ms_mean", "flush_ms_mean", "apply_ms_mean", "check_ms_mean", "resume_ms_mean",
    "megabytes", "every_s", "step_us_p50", "step_p50_ratio", "step_p99_ratio", "step_p99_ratio_idle", "step_p99_ratio_most",
]  # fmt: skip


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


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def step_times(fleet: Fleet) -> list[dict]:
    """By engine, of the steps since the last call."""
    return [ask(engine.port, "/imitation_steps") for engine in fleet.engines]


def run_paced(fleet: Fleet) -> None:
    """Idle, versions at a pace, idle again, each for as long. Steps are timed inside the gate: pauses do not count."""
    options = fleet.options
    step_times(fleet)
    time.sleep(options.every * options.versions)
    idle = step_times(fleet)
    for _ in range(options.versions):
        due = time.monotonic() + options.every
        version = fleet.publish()
        fleet.await_current(version)
        fleet.check_states(version)
        time.sleep(max(0, due - time.monotonic()))
    beside = step_times(fleet)
    time.sleep(options.every * options.versions)
    again = step_times(fleet)

    def ratios(name: str, over: list[dict]) -> list[float]:
        return [one[name] / base[name] for one, base in zip(over, idle, strict=True)]

    p99s = ratios("p99_us", beside)
    row = {
        "campaign": "paced", "versions": options.versions, "megabytes": options.megabytes, "every_s": options.every,
        "step_us_p50": f"{median([one['p50_us'] for one in idle]):.1f}",
        "step_p50_ratio": f"{median(ratios('p50_us', beside)):.3f}",
        "step_p99_ratio": f"{median(p99s):.3f}", "step_p99_ratio_most": f"{max(p99s):.3f}",
        "step_p99_ratio_idle": f"{median(ratios('p99_us', again)):.3f}",
    }  # fmt: skip
    note(options, row)
    steps = sum(one["count"] for one in beside)
    print(f"paced: {len(fleet.engines)} engines, {steps} steps beside {options.versions} updates: {row}", flush=True)


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
        note(fleet.options, {"campaign": "killed", "versions": -(-fleet.options.kills // KILLS_A_VERSION), **killed})
    print(f"killed: {kills}, all at version {version} in the end, 0 wrong steps", flush=True)


def main() -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--versions", type=int, default=4)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--every", type=float)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--machine", default="")
    options = parser.parse_args()
    version_count = options.versions * (1 if options.every is None else 2) + -(-options.kills // KILLS_A_VERSION)
    with running_fleet(options, version_count) as fleet:
        fleet.start_driver()
        run_whole(fleet)
        if options.every is not None:
            run_paced(fleet)
        run_killed(fleet)


if __name__ == "__main__":
    main()
