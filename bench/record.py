"""Runs `xorbit bench` at several thread counts and SIMD levels and appends one CSV row per codec: what bench/results/ keeps.

usage: record.py XORBIT OUT.csv [--threads 1,2] [--cpu avx2,avx512] [-- arguments of xorbit bench]
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

COLUMNS = [
    "workload", "cpu", "threads", "rounds", "codec", "state_bytes", "changes", "payload_bytes", "bits_per_change", "x_entropy",
    "read_gb_s", "diff_encode_gb_s", "diff_encode_of_read", "encode_m_s", "preflight_m_s", "apply_m_s", "scatter_m_s",
    "apply_of_scatter", "result_digest",
]  # fmt: skip


def rows_of(answer: dict) -> list[dict]:
    """One row per workload and codec; rates are derived from the medians in seconds."""
    rows = []
    for workload in answer["workloads"]:
        changes, state_bytes = workload["changes"], workload["state_bytes"]
        for row in workload["rows"]:
            rows.append(
                {
                    "workload": workload["workload"],
                    "cpu": answer["cpu"],
                    "threads": answer["threads"],
                    "rounds": answer["rounds"],
                    "codec": row["codec"],
                    "state_bytes": state_bytes,
                    "changes": changes,
                    "payload_bytes": row["payload_bytes"],
                    "bits_per_change": round(row["payload_bytes"] * 8 / changes, 3),
                    "x_entropy": round(row["payload_bytes"] / workload["entropy_bytes"], 4),
                    "read_gb_s": round(2 * state_bytes / workload["read_s"] / 1e9, 2),
                    "diff_encode_gb_s": round(2 * state_bytes / row["encode_s"] / 1e9, 2),
                    "diff_encode_of_read": round(workload["read_s"] / row["encode_s"], 3),
                    "encode_m_s": round(changes / row["encode_s"] / 1e6, 1),
                    "preflight_m_s": round(changes / row["preflight_s"] / 1e6, 1),
                    "apply_m_s": round(changes / row["apply_s"] / 1e6, 1),
                    "scatter_m_s": round(changes / workload["scatter_s"] / 1e6, 1),
                    "apply_of_scatter": round(workload["scatter_s"] / row["apply_s"], 3),
                    "result_digest": row["result_digest"],
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xorbit", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--cpu", default="")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:end])
    bench_arguments = sys.argv[end + 1 :]
    new_file = not options.out.exists()
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new_file:
            writer.writeheader()
        for threads in options.threads.split(","):
            for cpu in options.cpu.split(","):
                command = [str(options.xorbit.resolve()), "bench", "--json", "--threads", threads, *bench_arguments]
                if cpu:
                    command += ["--cpu", cpu]
                answer = subprocess.run(command, check=True, capture_output=True).stdout
                writer.writerows(rows_of(json.loads(answer)))
                file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
