"""Walks through every endpoint of `xorbit serve` with curl and writes the commands and the real replies as a page.

A sampler of a made-up stream of three versions is started for it; what is this machine's alone (host, process, port, folders,
clock) is replaced by names. An endpoint of docs/formats/openapi.json that the walk leaves out is an error.

usage: serving_walk.py XORBIT OUT.md
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = [
    (
        "Looking",
        [
            ("GET", "/health", None),
            ("GET", "/server_info", None),
            ("GET", "/model_info", None),
            ("GET", "/get_weight_version", None),
            ("GET", "/weight_info", None),
            ("GET", "/is_paused", None),
            ("POST", "/weights_checker", {"action": "checksum"}),
        ],
    ),
    (
        "An update step by step",
        [
            ("POST", "/get_gpu_delta_info", {}),
            ("POST", "/prepare_gpu_delta", {"session_id": "walk-1", "target_version": 1, "lease_ms": 60000}),
            ("POST", "/get_gpu_delta_status", {"session_id": "walk-1"}),
            ("POST", "/apply_gpu_delta", {"session_id": "walk-1"}),
            ("GET", "/is_paused", None),
            ("POST", "/resume_gpu_delta", {"session_id": "walk-1"}),
            ("POST", "/apply_gpu_delta", {"session_id": "walk-1"}),
            ("POST", "/clear_gpu_delta_state", {}),
        ],
    ),
    (
        "An update that is given up",
        [
            ("POST", "/prepare_gpu_delta", {"session_id": "walk-2", "base_version": 0, "target_version": 2}),
            ("POST", "/prepare_gpu_delta", {"session_id": "walk-2", "base_version": 1, "target_version": 2}),
            ("POST", "/abort_gpu_delta", {"session_id": "walk-2"}),
        ],
    ),
    (
        "An update in one call",
        [
            ("POST", "/update_weights_from_gpu_delta", {"target_version": "latest"}),
            ("POST", "/update_weight_version", {"new_version": "2"}),
            ("POST", "/model_info", None),
            ("GET", "/model_info", {"weight_version": {"min_version": 3}}),
        ],
    ),
    (
        "The gate",
        [
            ("POST", "/pause_generation", {"mode": "retract"}),
            ("POST", "/weights_checker", {"action": "checksum"}),
            ("POST", "/continue_generation", {}),
            ("POST", "/pause?mode=keep", None),
            ("POST", "/resume", None),
            ("GET", "/flush_cache", None),
            ("POST", "/flush_cache", None),
        ],
    ),
    ("Watching", [("GET", "/metrics", None)]),
]


def write_checkpoints(folder: Path) -> list[Path]:
    chooser = random.Random(1)
    weights = bytearray(chooser.randbytes(200_000))
    header = {"model.embed.weight": {"dtype": "BF16", "shape": [1000, 100], "data_offsets": [0, len(weights)]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    steps = []
    for step in range(3):
        steps.append(folder / f"step_{step}")
        steps[-1].mkdir()
        (steps[-1] / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + weights)
        for _ in range(1000):
            weights[2 * chooser.randrange(len(weights) // 2)] ^= 1
    return steps


class Walk:
    def __init__(self, url: str, folder: str) -> None:
        self.url = url
        self.folder = folder
        self.seen: set[tuple[str, str]] = set()
        self.lines: list[str] = []

    def impersonal(self, text: str) -> str:
        for pattern, name in (
            (re.escape(self.folder), "/srv"),
            (re.escape(self.url), "http://127.0.0.1:30000"),
            (r'"(hostname|host_cache_id)":"[^"]*"', r'"\1":"sampler-host"'),
            (r'"pid":\d+', '"pid":4711'),
            (r'"start_ticks":\d+', '"start_ticks":123456'),
            (r'_ns":[1-9]\d*', '_ns":123456789'),
            (r'"lease_left_ms":\d+', '"lease_left_ms":60000'),
        ):
            text = re.sub(pattern, name, text)
        return text

    def ask(self, method: str, path: str, body: dict | None) -> str:
        self.seen.add((method, path.split("?")[0]))
        command = ["curl", "-s", "-w", "\n%{http_code}", "-X", method, self.url + path]
        shown = f"curl -X {method} http://127.0.0.1:30000{path}"
        if body is not None:
            command += ["-d", json.dumps(body)]
            shown += f" -d '{json.dumps(body)}'"
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        reply, status = output.rsplit("\n", 1)
        self.lines += ["", "```", f"$ {shown}", f"{status} {self.impersonal(reply.strip())}", "```"]
        return reply

    def section(self, title: str, calls: list) -> None:
        self.lines += ["", f"## {title}"]
        for method, path, body in calls:
            self.ask(method, path, body)
            while path == "/prepare_gpu_delta" and "PREPARING" in self.peek(body):
                pass

    def peek(self, body: dict) -> str:
        command = ["curl", "-s", self.url + "/get_gpu_delta_status", "-d", json.dumps({"session_id": body["session_id"]})]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    xorbit, out = sys.argv[1], Path(sys.argv[2])
    routes = {
        (method.upper(), path)
        for path, methods in json.loads((ROOT / "docs/formats/openapi.json").read_text())["paths"].items()
        for method in methods
    }
    with tempfile.TemporaryDirectory() as folder:
        steps = write_checkpoints(Path(folder))
        for step in steps:
            subprocess.run([xorbit, "publish", f"{folder}/store", step], check=True, stdout=subprocess.DEVNULL)
        command = [xorbit, "serve", steps[0], "--store", f"{folder}/store", "--engine-id", "engine-a", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                walk = Walk(json.loads(server.stdout.readline())["serving"], folder)
                for title, calls in SECTIONS:
                    walk.section(title, calls)
                walk.section("What has nothing behind it", [(*route, None) for route in sorted(routes - walk.seen, key=str)])
            finally:
                server.terminate()
                server.communicate()  # what it says at its end has a reader
    answered = {
        line.split()[0] for line in walk.lines[walk.lines.index("## What has nothing behind it") :] if line[:1].isdigit()
    }
    if answered - {"501"}:
        raise SystemExit(f"the walk leaves out endpoints that answer {answered}: give them a place in it")
    head = [
        "# A walk through the server",
        "",
        "Every endpoint of `xorbit serve`, asked with curl, and what it answered: status, then body. What it means is in",
        "[design/serving.md](design/serving.md). Names stand in place of host, process, port, folders and clocks. The server",
        "holds version 0 of a stream of three: `xorbit serve step_0 --store STORE --engine-id engine-a --port 30000`. Made by",
        "",
        "    python3 tools/serving_walk.py build/release/xorbit docs/serving-walk.md",
    ]
    out.write_text("\n".join([*head, *walk.lines]) + "\n")


if __name__ == "__main__":
    main()
