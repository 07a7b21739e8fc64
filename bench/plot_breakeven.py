#!/usr/bin/env python3
"""plot_breakeven.py RESULTS.csv... OUT.svg: time of an update of 445 GB over links of 10 to 400 Gb/s, against full copies.

RESULTS.csv are files that `xorbit bench --end-to-end --csv` wrote, with one run or several. Each run becomes a line: what it
measured apart from the wire, and the wire's time for its payload at every rate. Of runs that differ in the link alone the first
is drawn; those beside an engine or by a decoder of its own, whose backend says so after a slash, are left out. Full copies are
only their bytes on the wire, with nothing for packing, loading or checking. Rivals' own figures are marked as reported.
"""

import csv
import sys

from log_plot import LogPlot

MODEL_BYTES = 445e9
WIDTH, RIGHT, TOP = 820, 200, 40
RATES = [10 * 40 ** (i / 40) for i in range(41)]
COLOURS = ["#1f5fbf", "#b3541e", "#2b8a3e", "#8a2b7f", "#a8871f", "#3f7f8f", "#555555", "#c0392b"]
FIRST_PHASE = "diff + encode"
# (name, seconds, Gb/s if it is stated): one update of the same model, by its authors.
REPORTED = [("Weight Teleportation, 2.65 GB, end to end (reported)", 4.0, None)]


def runs_of(path):
    """The rows of each run in a file."""
    runs = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["phase"] == FIRST_PHASE:
                runs.append([])
            runs[-1].append(row)
    return [rows for rows in runs if "/" not in rows[0]["backend"]]


def read_run(rows):
    """-> (name, seconds apart from the wire, payload bytes for 445 GB, (rate, measured seconds))"""
    phase = {row["phase"]: float(row["median_ms"]) / 1e3 for row in rows}
    first = rows[0]
    shares = MODEL_BYTES / float(first["share_bytes"])
    payload = float(first["payload_bytes"]) * shares
    percent = first["workload"].split("-")[1]
    density = "0.085 % of bytes" if first["workload"].startswith("reference") else f"{percent} % of BF16"
    total, wire = phase["step done to resumed"], payload * 8 / float(first["gbps"]) / 1e9
    name = f"{first['codec']}, {density}, {payload / 1e9:.2f} GB"
    return name, max(total - wire, 0), payload, (float(first["gbps"]), total)


def draw(runs):
    lines = {name: [rest + payload * 8 / rate / 1e9 for rate in RATES] for name, rest, payload, _ in runs}
    lines["full copy, BF16 or FP8 as stored: the wire alone"] = [MODEL_BYTES * 8 / rate / 1e9 for rate in RATES]
    times = [t for line in lines.values() for t in line]
    plot = LogPlot((WIDTH, 500), (70, RIGHT, TOP, 60), 11, (RATES[0], RATES[-1]), times)
    plot.axes(
        "From a step's end to resumed samplers, 445 GB of weights",
        "rate of the link, Gb/s",
        "seconds",
        (10, 25, 50, 100, 200, 400),
    )
    for name, seconds, _ in REPORTED:
        plot.level(seconds, f"{name}, link not stated")
    for i, (name, line) in enumerate(sorted(lines.items(), key=lambda item: -item[1][-1])):
        colour = COLOURS[i % len(COLOURS)]
        plot.line(zip(RATES, line, strict=True), colour)
        label = TOP + 16 + 15 * i
        plot.add(f'<text x="{WIDTH - RIGHT + 8}" y="{label}" fill="{colour}" font-size="9">{name}</text>')
        for _, _, _, (rate, total) in (run for run in runs if run[0] == name):
            if RATES[0] <= rate <= RATES[-1] * 1.001:
                plot.point(rate, total, colour)
    return plot.text()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    runs = {}
    for run in (read_run(rows) for path in sys.argv[1:-1] for rows in runs_of(path)):
        runs.setdefault(run[0], run)
    with open(sys.argv[-1], "w") as svg:
        svg.write(draw(list(runs.values())))
