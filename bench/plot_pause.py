#!/usr/bin/env python3
"""plot_pause.py RESULTS.csv OUT.svg: the pause against the share of elements that change.

RESULTS.csv holds the lines of `xorbit_gpu_check` (bench/run_gpu.sh writes them), or is a file of bench/results. Every BF16 and
FP8 model becomes a point: the time of apply with its check, for 100 GB of weights, the quickest that was measured. Lines beside
them: reading and writing all weights once, and an XOR from a ready mask, of the same run.
"""

import csv
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 70, 30, 40, 60
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


def plot(points, bounds):
    percents = [p for known in points.values() for p in known]
    times = [t for known in points.values() for t in known.values()] + list(bounds.values())
    low_x, high_x = math.floor(math.log10(min(percents))), 2
    low_y, high_y = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    scale_x, scale_y = (WIDTH - LEFT - RIGHT) / (high_x - low_x), (HEIGHT - TOP - BOTTOM) / (high_y - low_y)

    def x(percent):
        return LEFT + (math.log10(percent) - low_x) * scale_x

    def y(ms):
        return HEIGHT - BOTTOM - (math.log10(ms) - low_y) * scale_y

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">Apply and check, 100 GB of weights on one H200</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 18}" text-anchor="middle">elements that change, %</text>',
        f'<text transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">milliseconds</text>',
    ]
    for power in range(low_x, high_x + 1):
        at = x(10.0**power)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{10.0**power:g}</text>')
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for name, ms in bounds.items():
        at = y(ms)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#888" stroke-dasharray="5 4"/>')
        out.append(f'<text x="{LEFT + 6}" y="{at - 5:.1f}" fill="#555">{name}: {ms:.1f} ms</text>')
    for kind, known in sorted(points.items()):
        colour = COLOURS[kind]
        line = " ".join(f"{x(p):.1f},{y(t):.1f}" for p, t in sorted(known.items()))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for percent, ms in sorted(known.items()):
            out.append(f'<circle cx="{x(percent):.1f}" cy="{y(ms):.1f}" r="3.5" fill="{colour}"/>')
            out.append(f'<text x="{x(percent):.1f}" y="{y(ms) + 18:.1f}" text-anchor="middle" fill="{colour}">{ms:.3g}</text>')
        percent, ms = max(known.items())
        out.append(f'<text x="{x(percent) + 8:.1f}" y="{y(ms) - 8:.1f}" fill="{colour}">{kind}</text>')
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], "w") as svg:
        svg.write(plot(*read_points(sys.argv[1])))
