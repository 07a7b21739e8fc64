#!/usr/bin/env python3
"""A real vLLM, led from version to version by xorbit serve --disk --follow, answers as one that was started with each version.

A tiny Llama of random weights takes three steps. vLLM is started with each of them once, and its greedy answers are noted. Then
one vLLM stays up: each step is published while it writes a long answer, which must come to its end, and afterwards the same
prompts, which its prefix cache knows from the version before, must be answered as noted. At last it is started again.

usage: PYTHON real_vllm.py XORBIT, where PYTHON imports vllm, transformers and torch (a CPU build will do; some minutes).
Exit code 77: there is no vllm.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

STEPS = 4
PROMPTS = [[(17 * i + 5 * j) % 500 + 3 for j in range(400)] for i in range(4)]  # longer than the blocks that are cached whole
LONG_ANSWER = 1500


def make_checkpoints(folder: Path) -> list[Path]:
    import tokenizers
    import torch
    import transformers

    torch.manual_seed(7)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"t{i}": i for i in range(512)}, unk_token="t0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", bos_token="t1", eos_token="t2")
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, initializer_range=0.2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    steps = []
    for step in range(STEPS):
        for parameter in model.parameters() if step else []:
            changed = torch.rand(parameter.shape) < 0.02
            parameter.data[changed] = (parameter.data[changed].float() * 1.5 + 0.05).to(torch.bfloat16)
        steps.append(folder / f"step_{step:06d}")
        model.save_pretrained(steps[-1])
        tokenizer.save_pretrained(steps[-1])
    return steps


def ask(port: int, path: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.loads(reply.read() or b"{}")


def wait_for(what: str, condition, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.2)
    sys.exit(f"gave up: {what}")


def complete(port: int, prompt: list[int], count: int) -> dict:
    body = {"model": "m", "prompt": prompt, "max_tokens": count, "temperature": 0, "logprobs": 0, "ignore_eos": True}
    return ask(port, "/v1/completions", body)["choices"][0]


def answers(port: int) -> list[tuple[list[str], list[float]]]:
    choices = [complete(port, prompt, 16)["logprobs"] for prompt in PROMPTS]
    return [(choice["tokens"], choice["token_logprobs"]) for choice in choices]


def is_same(got: list, wanted: list) -> bool:
    """The same words, as likely as before; sums in another order may differ in the last bits of BF16."""
    near = all(abs(a - b) < 0.05 for (_, g), (_, w) in zip(got, wanted, strict=True) for a, b in zip(g, w, strict=True))
    return near and [words for words, _ in got] == [words for words, _ in wanted]


@contextlib.contextmanager
def vllm(model: Path, log: Path, port: int):
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", "m", "--port", port]
    command += ["--host", "127.0.0.1", "--dtype", "bfloat16", "--max-model-len", 4096, "--max-num-seqs", 8, "--enforce-eager"]
    settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with (
        log.open("a") as file,
        subprocess.Popen([str(part) for part in command], env=os.environ | settings, stdout=file, stderr=file) as process,
    ):
        try:
            wait_for("vLLM does not start", lambda: process.poll() is not None or ask(port, "/health") == {})
            if process.poll() is not None:
                sys.exit(log.read_text()[-2000:] + "\nvLLM has ended")
            yield process
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def check(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(f"FAILED: {what}")
    print(f"right: {what}", flush=True)


@contextlib.contextmanager
def serving(xorbit: str, store: Path, weights: Path, engine_port: int, port: int):
    command = [xorbit, "serve", "--disk", weights, "--store", store, "--engine", "vllm", "--follow"]
    command += ["--engine-url", f"http://127.0.0.1:{engine_port}", "--port", str(port)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()


def lead(xorbit: str, steps: list[Path], wanted: list, folder: Path) -> None:
    store, weights, port, own_port = folder / "store", folder / "weights", free_port(), free_port()

    def run(*command: object) -> None:
        subprocess.run([xorbit, *command], check=True, capture_output=True)

    def is_at(version: int) -> bool:
        return ask(own_port, "/health")["weight_version"] == str(version)

    def check_answers(version: int) -> None:
        check(is_same(answers(port), wanted[version]), f"version {version} is answered as by a vLLM that was started with it")
        check(ask(port, "/weight_info") == {"weight_version": str(version)}, "and vLLM names it")

    run("publish", store, steps[0])
    run("pull", store, weights)
    with contextlib.ExitStack() as engine:
        engine.enter_context(vllm(weights, folder / "vllm.log", port))
        with serving(xorbit, store, weights, port, own_port):
            wait_for("the server does not start", lambda: is_at(0))
            check_answers(0)
            for version in range(1, STEPS):
                long_answers: list[dict] = []
                writing = threading.Thread(target=lambda out=long_answers: out.append(complete(port, PROMPTS[0], LONG_ANSWER)))
                writing.start()
                time.sleep(1)
                run("publish", store, steps[version], "--base", steps[version - 1])
                wait_for("the new version is not served", lambda v=version: is_at(v))
                check(writing.is_alive(), f"version {version} is served while an answer is being written")
                writing.join()
                check(len(long_answers[0]["logprobs"]["tokens"]) == LONG_ANSWER, "which comes to its end")
                check_answers(version)
            engine.close()
            engine.enter_context(vllm(weights, folder / "vllm.log", port))
            wait_for("a vLLM that was started again is not told its version", lambda: is_at(STEPS - 1))
            check_answers(STEPS - 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("xorbit")
    options = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("skipped: this Python has no vllm")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = make_checkpoints(folder)
        wanted = []
        for step in steps:
            port = free_port()
            with vllm(step, folder / "alone.log", port):
                wanted.append(answers(port))
        check(all(not is_same(wanted[i], wanted[i + 1]) for i in range(STEPS - 1)), "the steps are told apart by their answers")
        lead(options.xorbit, steps, wanted, folder)


if __name__ == "__main__":
    main()
