#!/usr/bin/env python3
"""plot_breakeven.py RESULTS.csv... OUT.svg: time of an update of 445 GB over links of 10 to 400 Gb/s, against full copies.

RESULTS.csv are files that `xorbit bench --end-to-end --csv` wrote, with one run or several. Each run becomes a line: what it
measured apart from the wire, and the wire's time for its payload at every rate. Of runs that differ in the link alone the first
is drawn; those beside an engine or by a decoder of its own, whose backend says so after a slash, are left out. Full copies are
only their bytes on the wire, with nothing for packing, loading or checking. Rivals' own figures are marked as reported.
"""

import csv
import math
import sys

MODEL_BYTES = 445e9
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 500, 70, 200, 40, 60
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


def plot(runs):
    lines = {name: [rest + payload * 8 / rate / 1e9 for rate in RATES] for name, rest, payload, _ in runs}
    lines["full copy, BF16 or FP8 as stored: the wire alone"] = [MODEL_BYTES * 8 / rate / 1e9 for rate in RATES]
    times = [t for line in lines.values() for t in line]
    low_y, high_y = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    scale_x = (WIDTH - LEFT - RIGHT) / math.log10(RATES[-1] / RATES[0])
    scale_y = (HEIGHT - TOP - BOTTOM) / (high_y - low_y)

    def x(rate):
        return LEFT + math.log10(rate / RATES[0]) * scale_x

    def y(seconds):
        return HEIGHT - BOTTOM - (math.log10(seconds) - low_y) * scale_y

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">From a step\'s end to resumed samplers, 445 GB of weights</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 18}" text-anchor="middle">rate of the link, Gb/s</text>',
        f'<text transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">seconds</text>',
    ]
    for rate in (10, 25, 50, 100, 200, 400):
        out.append(f'<line x1="{x(rate):.1f}" x2="{x(rate):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x(rate):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{rate}</text>')
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for name, seconds, _ in REPORTED:
        at = y(seconds)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#888" stroke-dasharray="5 4"/>')
        out.append(f'<text x="{LEFT + 6}" y="{at - 5:.1f}" fill="#555">{name}, link not stated</text>')
    for i, (name, line) in enumerate(sorted(lines.items(), key=lambda item: -item[1][-1])):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(f"{x(rate):.1f},{y(t):.1f}" for rate, t in zip(RATES, line, strict=True))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = TOP + 16 + 15 * i
        out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{label}" fill="{colour}" font-size="9">{name}</text>')
        for _, _, _, (rate, total) in (run for run in runs if run[0] == name):
            if RATES[0] <= rate <= RATES[-1] * 1.001:
                out.append(f'<circle cx="{x(rate):.1f}" cy="{y(total):.1f}" r="3.5" fill="{colour}"/>')
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    runs = {}
    for run in (read_run(rows) for path in sys.argv[1:-1] for rows in runs_of(path)):
        runs.setdefault(run[0], run)
    with open(sys.argv[-1], "w") as svg:
        svg.write(plot(list(runs.values())))
