"""Several drivers at one fleet: two that follow the stream and others by hand beside them, while versions come and drivers end.

Imitation engines with their servers, as in fleet_campaign.py. Drivers that follow are killed (kill -9) or stopped (SIGTERM),
some only once the next one is at work; others drive to the newest version or back to an older one, once in a while each
engine by itself. Engines and servers are left alone, so nothing may fail: whoever was not killed or stopped must bring all
engines to its version, and no engine may be dropped, or compute with wrong weights.

usage: drivers_campaign.py XORBIT IMITATION_ENGINE [--engines N] [--seconds N] [--seed N] [--dialect sglang|vllm]
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time

from fleet import Fleet, options_parser, running_fleet

VERSIONS_A_SECOND = 1


class Driver:
    """`xorbit drive`, and what it says."""

    def __init__(self, fleet: Fleet, *more: str) -> None:
        urls = [f"http://127.0.0.1:{server.port}" for server in fleet.servers]
        self.more = more
        self.reports: list[dict] = []
        self.is_ended = False  # by us
        command = [fleet.options.xorbit, "drive", "--store", str(fleet.store), "--json", *more, "--engines", *urls]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        # A follower says a line a round, the others one object over several lines.
        texts = self.process.stdout if "--follow" in self.more else [self.process.stdout.read()]
        for text in texts:
            if '"engines"' in text and text.rstrip().endswith("}"):  # else it was killed in the middle
                self.reports.append(json.loads(text))

    def end(self, how: signal.Signals) -> None:
        self.is_ended = True
        self.process.send_signal(how)

    def check(self) -> int:
        """Once its process is over: how many rounds it has told of."""
        self.reader.join()
        code = self.process.wait()
        trouble = self.process.stderr.read()
        rounds = self.reports[:-1] if self.is_ended else self.reports
        bad = [report for report in rounds if not report["all_current"]]
        bad += [report for report in self.reports if any(engine["result"] == "dropped" for engine in report["engines"])]
        if bad or (code != 0 and not self.is_ended):
            raise AssertionError(f"drive {self.more}: exit code {code}, {trouble}, {json.dumps(bad[:2])}")
        return len(rounds)


def run(fleet: Fleet, chooser: random.Random) -> dict[str, int]:
    counts = {"rounds": 0, "killed": 0, "stopped": 0, "followers": 2, "by hand": 0}
    followers = [Driver(fleet, "--follow") for _ in range(2)]
    by_hand: list[Driver] = []
    over: list[Driver] = []
    end = time.monotonic() + fleet.options.seconds
    next_version = 0.0
    while time.monotonic() < end:
        if time.monotonic() >= next_version:
            fleet.publish()
            next_version = time.monotonic() + 1 / VERSIONS_A_SECOND
        time.sleep(chooser.random() * 0.3)
        if chooser.random() < 0.15:
            which = chooser.randrange(2)
            how = chooser.choice([signal.SIGKILL, signal.SIGTERM])
            old = followers[which]
            overlaps = chooser.random() < 0.5
            if overlaps:
                followers[which] = Driver(fleet, "--follow")
                time.sleep(chooser.random() * 0.2)
            old.end(how)
            if not overlaps:
                followers[which] = Driver(fleet, "--follow")
            over.append(old)
            counts["killed" if how == signal.SIGKILL else "stopped"] += 1
            counts["followers"] += 1
        by_hand, done = [d for d in by_hand if d.process.poll() is None], [d for d in by_hand if d.process.poll() is not None]
        over += done
        if len(by_hand) < 2 and chooser.random() < 0.3:
            more = ["--independent"] if chooser.random() < 0.2 else []
            if chooser.random() < 0.3:
                more += ["--version", str(max(0, fleet.published - chooser.randrange(1, 4)))]
            by_hand.append(Driver(fleet, *more))
            counts["by hand"] += 1
    counts["versions"] = fleet.published
    for driver in by_hand:
        driver.process.wait(timeout=120)
    fleet.await_whole(fleet.published - 1)
    fleet.check_states(fleet.published - 1)
    for driver in followers:
        driver.end(signal.SIGTERM)
    for driver in [*over, *by_hand, *followers]:
        counts["rounds"] += driver.check()
    return counts


def main() -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    with running_fleet(options, int(options.seconds * VERSIONS_A_SECOND) + 2) as fleet:
        counts = run(fleet, random.Random(options.seed))
    print(f"{counts}, no engine dropped, no wrong step", flush=True)


if __name__ == "__main__":
    main()
