#!/usr/bin/env python3
"""plot_pause.py RESULTS.csv OUT.svg: the pause against the share of elements that change.

RESULTS.csv holds the lines of `xorbit_gpu_check` (bench/run_gpu.sh writes them), or is a file of bench/results. Every BF16 and
FP8 model becomes a point: the time of apply with its check, for 100 GB of weights, the quickest that was measured. Lines beside
them: reading and writing all weights once, and an XOR from a ready mask, of the same run.
"""

import csv
import math
import sys

from log_plot import LogPlot

COLOURS = {"BF16": "#1f5fbf", "FP8": "#b3541e"}


def read_points(path):
    """-> ({kind: {percent: ms for 100 GB}}, {name: ms for 100 GB})"""
    points, bounds = {}, {}
    with open(path, newline="") as file:
        for row in csv.reader(file):
            if len(row) < 8 or row[0] in ("note", "version"):
                continue
            _, model, variant, median = row[:4]
            scaled = float(median) * 100e9 / max(float(row[7]), 1)
            if model == "yardstick" and variant == "read and write in place":
                bounds["reading and writing all weights"] = 2 * scaled
            elif model == "yardstick" and variant.startswith("dense XOR"):
                bounds["XOR of all weights from a ready mask"] = 3 * scaled
            elif variant.startswith("apply by returning XOR and check") and model.split("-")[0] in ("bf16", "fp8"):
                kind, percent = model.split("-")[0].upper(), float(model.split("-")[1].rstrip("%"))
                known = points.setdefault(kind, {})
                known[percent] = min(known.get(percent, math.inf), scaled)
    return points, bounds


def draw(points, bounds):
    percents = [p for known in points.values() for p in known]
    times = [t for known in points.values() for t in known.values()] + list(bounds.values())
    low_x, high_x = math.floor(math.log10(min(percents))), 2
    plot = LogPlot((760, 440), (70, 30, 40, 60), 12, (10.0**low_x, 10.0**high_x), times)
    plot.axes(
        "Apply and check, 100 GB of weights on one H200",
        "elements that change, %",
        "milliseconds",
        [10.0**power for power in range(low_x, high_x + 1)],
    )
    for name, ms in bounds.items():
        plot.level(ms, f"{name}: {ms:.1f} ms")
    for kind, known in sorted(points.items()):
        colour = COLOURS[kind]
        plot.line(sorted(known.items()), colour)
        for percent, ms in sorted(known.items()):
            plot.point(percent, ms, colour)
            x, y = plot.x(percent), plot.y(ms) + 18
            plot.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}">{ms:.3g}</text>')
        percent, ms = max(known.items())
        x, y = plot.x(percent) + 8, plot.y(ms) - 8
        plot.add(f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{kind}</text>')
    return plot.text()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], "w") as svg:
        svg.write(draw(*read_points(sys.argv[1])))
