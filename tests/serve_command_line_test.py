"""A sampler behind HTTP, as a trainer's framework meets it: an update step by step, following, restarts, tokens, stopping.

usage: serve_command_line_test.py XORBIT (with unittest's options after it)
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import command_line_test as cli
import store_command_line_test as store_test
from command_line_test import run


class Sampler:
    """A running `xorbit serve`."""

    def __init__(self, *arguments: object) -> None:
        self.process = store_test.start("serve", *arguments, "--json")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        self.announced = json.loads(line)

    def ask(self, method: str, path: str, body: dict | None = None, token: str = "") -> tuple[int, dict]:
        request = urllib.request.Request(self.announced["serving"] + path, method=method)
        if token:
            request.add_header("Authorization", "Bearer " + token)
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def post(self, path: str, **fields: object) -> tuple[int, dict]:
        return self.ask("POST", path, fields)

    def version(self) -> str:
        return self.ask("GET", "/get_weight_version")[1]["weight_version"]

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(self.announced["serving"] + "/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))

    def await_version(self, version: str) -> None:
        deadline = time.monotonic() + 60
        while self.version() != version:
            if time.monotonic() > deadline:
                raise AssertionError(f"still at version {self.version()}, not {version}")
            time.sleep(0.01)

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class ServeCommandLineTest(unittest.TestCase):
    """On a made-up run of small checkpoints."""

    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        self.steps = store_test.write_run(self.folder, 4)
        self.store = self.folder / "store"
        self.publish(0)

    def publish(self, step: int) -> None:
        exit_code = run("publish", self.store, self.steps[step]).returncode
        self.assertEqual(exit_code, 0)

    def serve(self, *arguments: object, step: int = 0) -> Sampler:
        sampler = Sampler(self.steps[step], "--store", self.store, *arguments)
        self.addCleanup(sampler.kill)
        return sampler

    def assert_exact(self, sampler: Sampler, version: str) -> None:
        status, checked = sampler.post("/weights_checker", action="checksum")
        self.assertEqual((status, checked["weight_version"]), (200, version), checked)

    def test_a_start_at_the_newest_version(self) -> None:
        self.publish(1)
        self.publish(2)
        sampler = self.serve("--start-newest", 64, "--follow")
        self.assertEqual(sampler.announced["version"], 2)
        self.assert_exact(sampler, "2")
        self.publish(3)
        sampler.await_version("3")
        self.assertEqual(sampler.stop()[0], 0)
        refused = run("serve", "--attach", self.folder / "nothing", "--store", self.store, "--start-newest", 64, expect=2)
        self.assertIn("--start-newest", refused.stderr)

    def test_servers_of_one_host_fetch_a_payload_once(self) -> None:
        cache = self.folder / "cache"
        samplers = [self.serve("--host-cache", cache) for _ in range(3)]

        def update(version: int) -> list[int]:
            self.publish(version)
            before = [sampler.metric("xorbit_host_cache_fetched_bytes_total") for sampler in samplers]
            for sampler in samplers:
                status, reply = sampler.post("/update_weights_from_gpu_delta", target_version=version)
                self.assertEqual(status, 200, reply)
                self.assert_exact(sampler, str(version))
            return [
                sampler.metric("xorbit_host_cache_fetched_bytes_total") - a for sampler, a in zip(samplers, before, strict=True)
            ]

        fetched = update(1)
        self.assertGreater(fetched[0], 0)
        self.assertEqual(fetched[1:], [0, 0])
        # A copy that is damaged is not believed, and not kept.
        self.publish(2)
        payload = next(self.store.glob("main/v000002/**/*.xob"))
        name = "xorbit%" + str(payload.relative_to(self.store)).replace("/", "%")
        whole = payload.read_bytes()
        (cache / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        for sampler in samplers:
            self.assertEqual(sampler.post("/update_weights_from_gpu_delta", target_version=2)[0], 200)
            self.assert_exact(sampler, "2")
        self.assertEqual((cache / name).read_bytes(), whole)
        (cache / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        late = self.serve("--host-cache", cache, "--start-newest", 64, step=1)
        self.assert_exact(late, "2")
        self.assertEqual((cache / name).read_bytes(), whole)
        cache.chmod(0o777)
        refused = run("serve", self.steps[0], "--store", self.store, "--host-cache", cache, expect=1)
        self.assertIn("others may write", refused.stderr)

    def test_an_update_step_by_step(self) -> None:
        sampler = self.serve("--engine-id", "engine-a")
        self.assertEqual(sampler.announced["version"], 0)
        self.publish(1)
        info = sampler.post("/get_gpu_delta_info", engine_id="engine-a")[1]["participants"]
        status, _ = sampler.post(
            "/prepare_gpu_delta", session_id="s", stream_id="main", base_version=0, target_version=1, participants=info
        )
        self.assertEqual(status, 200)
        state = "PREPARING"
        while state == "PREPARING":
            state = sampler.post("/get_gpu_delta_status", session_id="s")[1]["participants"][0]["state"]
        self.assertEqual(state, "PREPARED")
        self.assertEqual(sampler.post("/apply_gpu_delta", session_id="s", flush_cache=True)[0], 200)
        status, reply = sampler.post("/resume_gpu_delta", session_id="s", keep_pause=False)
        self.assertEqual(status, 200)
        self.assertGreater(reply["participants"][0]["scheduler_timing"]["blocked_s"], 0)
        self.assert_exact(sampler, "1")
        self.assertEqual(sampler.post("/apply_gpu_delta", session_id="s")[0], 409)

    def test_one_call_brings_a_restarted_sampler_back(self) -> None:
        for step in (1, 2, 3):
            self.publish(step)
        sampler = self.serve()
        self.assertEqual(sampler.ask("GET", "/health")[0], 503)
        self.assertEqual(sampler.post("/update_weights_from_gpu_delta", target_version="latest")[0], 200)
        self.assertEqual(sampler.ask("GET", "/health")[0], 200)
        self.assert_exact(sampler, "3")
        sampler.kill()
        again = self.serve(step=2)
        self.assertEqual(again.version(), "2")
        self.assertEqual(again.post("/update_weights_from_gpu_delta", target_version=0)[0], 200)
        self.assert_exact(again, "0")

    def test_following(self) -> None:
        sampler = self.serve("--follow")
        for step in (1, 2, 3):
            self.publish(step)
            sampler.await_version(str(step))
        self.assert_exact(sampler, "3")
        info = sampler.ask("GET", "/server_info")[1]
        self.assertEqual((info["ready"], info["applied"], info["newest"], info["memory"]), (True, 3, 3, "own"))

    def test_a_store_that_was_put_back_and_published_into_again(self) -> None:
        for step in (1, 2):
            self.publish(step)
        samplers = [self.serve("--follow"), self.serve()]
        samplers[0].await_version("2")
        drive = ("drive", "--store", self.store, "--json", "--engines", samplers[1].announced["serving"])
        self.assertTrue(json.loads(run(*drive).stdout)["all_current"])
        for version in (1, 2):
            shutil.rmtree(self.store / "main" / f"v{version:06d}")
        (self.store / "main/head.json").unlink()
        for step in (3, 1):  # the same numbers for other weights
            self.publish(step)
        deadline = time.monotonic() + 60
        while "was rewritten" not in samplers[0].ask("GET", "/health")[1]["message"] and time.monotonic() < deadline:
            time.sleep(0.01)  # until then version 2 may be missing
        driven = run(*drive, expect=1)
        engine = json.loads(driven.stdout)["engines"][0]
        self.assertEqual(engine["result"], "dropped")
        self.assertIn("was rewritten", driven.stdout)
        for sampler in samplers:
            status, health = sampler.ask("GET", "/health")
            self.assertEqual(status, 503)
            self.assertIn("was rewritten: its version 2 is another state", health["message"])
            self.assertEqual(sampler.version(), "2")
        again = self.serve("--follow")
        again.await_version("2")
        self.assert_exact(again, "2")

    def test_driving_several(self) -> None:
        samplers = [self.serve("--engine-id", f"engine-{i}") for i in range(3)]
        engines = ["--engines", *(sampler.announced["serving"] for sampler in samplers)]
        for step in (1, 2):
            self.publish(step)
        driven = run("drive", "--store", self.store, *engines, "--version", 1, "--json")
        report = json.loads(driven.stdout)
        self.assertEqual((driven.returncode, report["version"], report["all_current"]), (0, 1, True), driven.stderr)
        samplers[1].kill()
        driven = run("drive", "--store", self.store, *engines, "--strict", expect=1)
        self.assertEqual(driven.returncode, 1)
        self.assertIn("aborted: engine 2", driven.stdout)
        self.assert_exact(samplers[0], "1")
        driven = run("drive", "--store", self.store, *engines, "--independent", "--json", expect=1)
        results = [engine["result"] for engine in json.loads(driven.stdout)["engines"]]
        self.assertEqual((driven.returncode, results), (1, ["current", "dropped", "current"]))
        for index in (0, 2):
            self.assert_exact(samplers[index], "2")
        run("drive", "--store", self.store, "--engines", "nonsense", expect=2)
        once = ("http://127.0.0.1:1", "http://localhost:1/")
        run("drive", "--store", self.store, "--engines", *once, expect=2)
        run("drive", "--store", self.store, "--engines", once[0], "--apply-seconds", "nan", expect=2)

    def test_a_signal_stops_it_gracefully(self) -> None:
        sampler = self.serve()
        exit_code, output = sampler.stop()
        self.assertEqual((exit_code, json.loads(output)["version"]), (0, 0))
        with self.assertRaises(OSError):
            sampler.ask("GET", "/health")

    def test_tokens(self) -> None:
        token = self.folder / "token"
        token.write_text("secret\n")
        sampler = self.serve("--admin-token-file", token)
        self.assertEqual(sampler.ask("POST", "/pause_generation", {})[0], 401)
        self.assertEqual(sampler.ask("POST", "/pause_generation", {}, "secret")[0], 200)

    def test_a_log_that_nobody_reads_holds_nothing_up(self) -> None:
        sampler = self.serve("--log")
        for _ in range(600):  # more than a pipe holds
            sampler.ask("GET", "/health?" + "x" * 200)
        sampler.process.stderr.close()  # and who has gone ends nothing
        self.assertEqual(sampler.ask("GET", "/health")[0], 200)
        self.assertEqual(sampler.ask("GET", "/health")[0], 200)

    def test_lines_never_go_where_weights_are(self) -> None:
        """A process started without standard error: the number must not become that of a file it opens."""
        command = 'exec "$0" serve "$1" --store "$2" --log --json 2>&-'
        with subprocess.Popen(
            ["sh", "-c", command, cli.XORBIT, self.steps[0], self.store], stdout=subprocess.PIPE, text=True
        ) as process:
            json.loads(process.stdout.readline())
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/2"), "/dev/null")
            process.terminate()
            process.wait(30)

    def test_web_pages_are_not_answered(self) -> None:
        sampler = self.serve()
        request = urllib.request.Request(
            sampler.announced["serving"] + "/pause_generation", b"{}", {"Origin": "http://example.org"}
        )
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        self.assertEqual(refused.exception.code, 403)

    def test_wrong_uses(self) -> None:
        (self.folder / "other").mkdir()
        engine = ("--engine", "vllm", "--engine-url", "http://127.0.0.1:1")
        foreign = store_test.write_run(self.folder / "other", 2)[1]  # a step that the stream does not have
        two_lines = self.folder / "two-lines"
        two_lines.write_text("secret\nanother\n")
        served = (self.steps[0], "--store", self.store)
        for arguments, exit_code in (
            ((*served, "--admin-token-file", ""), 2),
            ((*served, "--read-token-file", two_lines), 2),
            ((*served, "--requests-per-second", "nan"), 2),
            ((self.steps[0], "--store", self.folder / "none"), 3),
            ((foreign, "--store", self.store), 1),
            ((self.steps[0], "--store", self.store, "--address", "0.0.0.0"), 2),
            ((self.steps[0], "--store", self.store, "--address", "localhost"), 2),
            ((self.steps[0],), 2),
            (("--store", self.store), 2),
            ((self.steps[0], "--attach", self.folder / "none", "--store", self.store), 2),
            (("--attach", self.folder / "none", "--store", self.store), 3),
            (("--disk", self.steps[0], "--store", self.store), 2),
            (("--disk", self.steps[0], "--store", self.store, *engine, "--kv", "keep"), 2),
            (("--disk", self.steps[0], "--store", self.store, *engine), 3),
        ):
            process = store_test.start("serve", *arguments)
            self.assertEqual(store_test.finish(process)[0], exit_code, arguments)


if __name__ == "__main__":
    cli.XORBIT = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
