#!/usr/bin/env python3
"""compare_codecs.py XORBIT [--backend cpu|cuda] [--gigabytes GB] [--gbps X] [--rounds N] [--nvcomp FOLDER] [--csv OUT.csv]
                  [--row-seconds S] [--seconds S] [--codecs NAME...] [--decoders NAME...]

Every codec with every decoder, end to end in one session: a table laid out like the articles' on Weight Teleportation, whose
own rows stand below it, marked as reported. Sender: from the step's end until all payloads are stored. Receiver: fetching,
checking and preparing, while the engine serves. Pause: the engine stands still. Payloads are for 445 GB; times are those of a
share (docs/design/end-to-end.md). A row that takes longer than it may is left out, and says so: one slow decoder must not
take the time of the others.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

CODECS = ("sparse", "snappy", "lz4", "snappy+zstd", "lz4+zstd")
# codec, decoder, payload in GB, sender s, receiver s, pause ms: as the articles have it, on 64 and 8 B300.
REPORTED = (
    ("snappy+zstd", "engine (reported)", 2.65, 0.789, 2.355, 219.6),
    ("lz4", "nvCOMP (reported)", 5.36, 0.834, 6.041, None),
    ("disk delta, CPU Zstd", "(reported)", 0.876, None, None, None),
)


def run(command, limit):
    """Output and, if it has none, why; what it started ends with it."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, error = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, f"not done in {limit:.0f} s"
    return (output, "") if process.returncode == 0 else (None, error.strip())


def measure(options, codec, decoder, limit):
    command = [options.xorbit, "bench", "--end-to-end", "--json", "--backend", options.backend, "--codec", codec]
    command += ["--gigabytes", options.gigabytes, "--gbps", options.gbps, "--rounds", options.rounds]
    if decoder:
        command += ["--decoder", decoder]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="xorbit-codecs-", dir=memory) as scratch:  # gone also after a row that was ended
        output, why = run([str(word) for word in [*command, "--scratch", scratch]], limit)
    if output is None:
        print(f"{codec:<22} {decoder.split(':')[0]:<18} left out: {why}", flush=True)
        return None
    report = json.loads(output)
    ms = {row["phase"]: row["median_ms"] for row in report["phases"]}
    sender = ms["diff + encode"] + ms["hash + store"]
    receiver = ms["route"] + ms["fetch + fold"] + ms["prepare"]
    payload = report["payload_bytes"] * 445e9 / report["share_bytes"] / 1e9
    return (codec, decoder.split(":")[0] or "-", payload, sender / 1e3, receiver / 1e3, ms["engine stands still"])


def shown(row):
    cells = ["-" if value is None else f"{value:.3f}" for value in row[2:]]
    return f"{row[0]:<22} {row[1]:<18} {cells[0]:>11} {cells[1]:>9} {cells[2]:>11} {cells[3]:>9}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xorbit")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--gigabytes", type=float, default=0.05)
    parser.add_argument("--gbps", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nvcomp", help="folder of libnvcomp.so.6: one more decoder")
    parser.add_argument("--codecs", nargs="+", default=CODECS, choices=CODECS)
    parser.add_argument("--decoders", nargs="+", default=("kernels", "cpu", "engine"), help="engine, kernels, cpu")
    parser.add_argument("--row-seconds", type=float, default=120, help="the most that one row may take")
    parser.add_argument("--seconds", type=float, default=3600, help="the most that all of them may take")
    parser.add_argument("--csv")
    options = parser.parse_args()
    decoders = [*options.decoders] + ([f"nvcomp:{options.nvcomp}"] if options.nvcomp else [])
    print(
        f"{'codec':<22} {'decoder':<18} {'payload, GB':>11} {'sender, s':>9} {'receiver, s':>11} {'pause, ms':>9}", flush=True
    )
    rows = []
    end = time.monotonic() + options.seconds
    for codec in options.codecs:
        for decoder in decoders if options.backend == "cuda" and codec != "sparse" else [""]:
            row = measure(options, codec, decoder, min(options.row_seconds, max(0.0, end - time.monotonic())))
            if row is not None:
                rows.append(row)
                print(shown(row), flush=True)
    print("\n".join(shown(row) for row in REPORTED))
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("codec", "decoder", "payload_gb_for_445", "sender_s", "receiver_s", "pause_ms"))
            writer.writerows([*rows, *REPORTED])
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
