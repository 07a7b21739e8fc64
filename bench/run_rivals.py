#!/usr/bin/env python3
"""Compare xorbit with the tools that people use today, on two checkpoints, in one run.

    bench/run_rivals.py OLD NEW --xorbit build/release/xorbit [--rounds 5] [--only NAME ...] [--save]

Every round runs every tool once, so that drifts of the machine hit all of them; times are medians over the rounds, memory is
the largest RssAnon seen. Everything ends with fsync; fetching is not timed. "bytes" is everything that a receiver fetches (for
xorbit manifest and payloads; the layout, stored once a stream, is listed in the method). Time ratios are to the Miles tools.

The entropy is that of the change itself, computed from the two checkpoints per unit width: gaps between changed elements as
symbols (exact below 16, then four buckets an octave with uniform low bits) and XOR values (whole for 1 and 2-byte elements,
byte by byte for wider ones), both order 0. Coders that find more structure, like clusters, may come out below 1.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent / "rivals"))
import common

RIVALS_FOLDER = pathlib.Path(__file__).parent / "rivals"
RIVALS = {
    "miles": ["miles_tools.py"],
    "index+value": ["index_value.py"],
    "index+value+zstd": ["index_value.py", "--zstd"],
    "zstd --patch-from": ["zstd_patch_from.py"],
    "xdelta3": ["xdelta3.py"],
}
COLUMNS = [
    "tool", "bytes", "bits a change", "x entropy", "encode MB/s", "encode x Miles", "decode+apply MB/s", "apply x Miles",
    "peak anonymous MB", "result", "method",
]  # fmt: skip
PIECE_ELEMENTS = 1 << 24


class Change(NamedTuple):
    """What there is to send."""

    changed_elements: int
    entropy_bits: float
    model_bytes: int


class Histogram:
    """Gap and value counts of one unit width."""

    def __init__(self, unit_bytes: int) -> None:
        """Start empty; elements are numbered through all tensors of the width."""
        self.unit_bytes = unit_bytes
        self.elements = 0
        self.changes = 0
        self._last = -1
        self._gap_symbols = np.zeros(300, np.int64)
        self._gap_raw_bits = 0
        planes = 1 if unit_bytes <= 2 else unit_bytes
        self._values = np.zeros((planes, 1 << (8 * min(unit_bytes, 2))), np.int64)

    def add(self, old: np.ndarray, new: np.ndarray) -> None:
        """Count the changes of the next piece."""
        masks = old ^ new
        positions = np.flatnonzero(masks)
        if positions.size:
            values = masks[positions]
            for plane in range(self._values.shape[0]):
                symbols = values if self.unit_bytes <= 2 else (values >> np.uint64(8 * plane)) & np.uint64(255)
                self._values[plane] += np.bincount(symbols.astype(np.int64), minlength=self._values.shape[1])
            flat = positions + self.elements
            self._add_gaps(np.diff(flat, prepend=self._last) - 1)
            self._last = int(flat[-1])
            self.changes += positions.size
        self.elements += old.size

    def _add_gaps(self, gaps: np.ndarray) -> None:
        small = gaps[gaps < 16]
        large = gaps[gaps >= 16]
        octaves = np.floor(np.log2(large)).astype(np.int64)
        symbols = 16 + 4 * (octaves - 4) + ((large >> (octaves - 2)) & 3)
        counted = np.bincount(np.concatenate([small, symbols]), minlength=self._gap_symbols.size)
        self._gap_symbols += counted
        self._gap_raw_bits += int((octaves - 2).sum())

    def entropy_bits(self) -> float:
        """Bits of all gaps and values."""
        return order0_bits(self._gap_symbols) + self._gap_raw_bits + sum(order0_bits(plane) for plane in self._values)


def order0_bits(counts: np.ndarray) -> float:
    """Bits of the symbols counted, coded by their own frequencies."""
    present = counts[counts > 0].astype(np.float64)
    return float((present * np.log2(present.sum() / present)).sum()) if present.size else 0.0


def measure_change(old: pathlib.Path, new: pathlib.Path) -> Change:
    """Entropy of what changed between two checkpoints of the same tensors, read piece by piece."""
    before, after = common.MappedCheckpoint(old), common.MappedCheckpoint(new)
    if before.tensors.keys() != after.tensors.keys():
        raise SystemExit("the checkpoints do not have the same tensors")
    histograms: dict[int, Histogram] = {}
    for name, tensor in after.tensors.items():
        unit_bytes = tensor.unit_bytes
        histogram = histograms.setdefault(unit_bytes, Histogram(unit_bytes))
        count = tensor.length // unit_bytes
        old_elements = np.ndarray(count, f"<u{unit_bytes}", before.view(name))
        new_elements = np.ndarray(count, f"<u{unit_bytes}", after.view(name))
        for at in range(0, count, PIECE_ELEMENTS):
            histogram.add(old_elements[at : at + PIECE_ELEMENTS], new_elements[at : at + PIECE_ELEMENTS])
    return Change(
        sum(h.changes for h in histograms.values()),
        sum(h.entropy_bits() for h in histograms.values()),
        common.total_tensor_bytes(new),
    )


def run_rival(command: list[str], old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> dict[str, object]:
    """One round of one of the other tools, in a process of its own."""
    script = str(RIVALS_FOLDER / command[0])
    full = [sys.executable, script, str(old), str(new), *command[1:], "--work", str(work), "--repeat", "1"]
    done = subprocess.run(full, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def run_xorbit(binary: pathlib.Path, codec: str, old: pathlib.Path, new: pathlib.Path, work: pathlib.Path) -> dict[str, object]:
    """One round of xorbit, timed as a process: start, mapping and fsync included."""
    peaks: list[int] = []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        delta, live = pathlib.Path(folder) / "delta", pathlib.Path(folder) / ("live" + old.suffix)
        diff = [str(binary), "diff", str(old), str(new), "-o", str(delta), "--codec", codec]
        encode_seconds = common.timed_commands([diff], [], peaks)
        layouts = delta / "layouts"
        layout_bytes = common.folder_bytes(layouts) if layouts.is_dir() else 0
        common.copy_checkpoint(old, live)
        apply = [str(binary), "apply", str(live), str(delta), "--in-place"]
        apply_seconds = common.timed_commands([apply], [], peaks)
        return {
            "bytes": common.folder_bytes(delta) - layout_bytes,
            "encode_seconds": encode_seconds,
            "apply_seconds": apply_seconds,
            "result_digest": common.state_digest(live),
            "peak_anonymous_bytes": max(peaks),
            "method": f"xorbit diff --codec {codec}; apply --in-place with journal; whole process (+ layout {layout_bytes} B)",
        }


def run_rounds(arguments: argparse.Namespace) -> dict[str, dict[str, object]]:
    """All tools, interleaved; per tool one summary like a rival's own JSON line."""
    lines: dict[str, list[dict[str, object]]] = {}
    for round_index in range(arguments.rounds):
        for codec in arguments.codec if arguments.xorbit else []:
            line = run_xorbit(arguments.xorbit, codec, arguments.old, arguments.new, arguments.work)
            lines.setdefault(f"xorbit {codec}", []).append(line)
        for name, command in RIVALS.items():
            if not arguments.only or name in arguments.only:
                lines.setdefault(name, []).append(run_rival(command, arguments.old, arguments.new, arguments.work))
        print(f"round {round_index + 1} of {arguments.rounds} done", file=sys.stderr)
    summaries = {}
    fields = common.Measurement.__dataclass_fields__
    for name, rounds in lines.items():
        measurements = [common.Measurement(**{field: line[field] for field in fields}) for line in rounds]
        summaries[name] = json.loads(common.report(name, str(rounds[0]["method"]), measurements))
    return summaries


def table_rows(summaries: dict[str, dict[str, object]], change: Change, new_digest: str) -> list[list[str]]:
    """One row a tool, in the order of COLUMNS."""
    miles = summaries.get("miles")
    megabytes = change.model_bytes / 1e6
    rows = []
    for name, line in summaries.items():
        bits = 8 * int(line["bytes"])
        encode, apply = float(line["encode_seconds"]), float(line["apply_seconds"])
        rows.append([
            name,
            str(line["bytes"]),
            f"{bits / change.changed_elements:.2f}" if change.changed_elements else "-",
            f"{bits / change.entropy_bits:.3f}" if change.entropy_bits else "-",
            f"{megabytes / encode:.0f}",
            f"{float(miles['encode_seconds']) / encode:.2f}" if miles else "-",
            f"{megabytes / apply:.0f}",
            f"{float(miles['apply_seconds']) / apply:.2f}" if miles else "-",
            f"{int(line['peak_anonymous_bytes']) / 1e6:.0f}",
            "= NEW" if line["result_digest"] == new_digest else "DIFFERS",
            str(line["method"]),
        ])  # fmt: skip
    return rows


def heading(arguments: argparse.Namespace, change: Change, new_digest: str) -> str:
    """What was measured, on what."""
    cpu = next(
        (line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    bits = change.entropy_bits / change.changed_elements if change.changed_elements else 0.0
    return (
        f"{change.model_bytes} bytes of tensors, {change.changed_elements} elements changed, entropy {bits:.2f} bits a change; "
        f"{arguments.rounds} interleaved rounds, {cpu}, {len(os.sched_getaffinity(0))} CPUs; "
        f"xxh3-128 of NEW's tensors {new_digest}"
    )


def main() -> None:
    """Measure and print; exit 1 if any tool's result differs from NEW."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--xorbit", type=pathlib.Path, help="the xorbit program; without it only the rivals run")
    parser.add_argument("--codec", action="append", help="xorbit codec, may be repeated (default: sparse)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(RIVALS), help="run these rivals only")
    parser.add_argument("--work", type=pathlib.Path, help="folder for deltas and copies (default: the system's temporary one)")
    parser.add_argument("--save", action="store_true", help="also write bench/results/<date>-rivals.csv")
    arguments = parser.parse_args()
    arguments.codec = arguments.codec or ["sparse"]
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        arguments.work = pathlib.Path(work)
        summaries = run_rounds(arguments)
    change = measure_change(arguments.old, arguments.new)
    new_digest = common.state_digest(arguments.new)
    rows = table_rows(summaries, change, new_digest)
    title = heading(arguments, change, new_digest)
    print(title + "\n")
    print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if arguments.save:
        results = pathlib.Path(__file__).parent / "results"
        results.mkdir(exist_ok=True)
        path = results / f"{datetime.date.today().isoformat()}-rivals.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"# {title}"])
            writer.writerows([COLUMNS, *rows])
        print(f"\nsaved as {path}")
    if any("DIFFERS" in row for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
