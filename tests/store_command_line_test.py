"""A store by hand, as a user meets it: publish, pull, log and gc, wrong uses, damage, full disks, kills, two at once.

usage: store_command_line_test.py XORBIT (with unittest's options after it)
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import command_line_test as cli
from command_line_test import answer, digest, run

ROUNDS = int(os.environ.get("XORBIT_TEST_ROUNDS", "6"))


def start(*arguments: object, file_limit_bytes: int | None = None) -> subprocess.Popen[str]:
    """Starts xorbit, perhaps with a limit on the size of the files that it writes: a disk that is full."""

    def limit() -> None:
        if file_limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit_bytes, file_limit_bytes))

    command = [cli.XORBIT, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it wrote on standard error, which is one line if it failed."""
    _, error = process.communicate(timeout=300)
    lines = error.strip().splitlines()
    if process.returncode != 0 and (len(lines) != 1 or not lines[0].startswith("xorbit: ")):
        raise AssertionError(f"{process.args}: exit {process.returncode}, not a one-line error: {error!r}")
    return process.returncode, error


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write_run(folder: Path, count: int, megabytes: int = 1) -> list[Path]:
    """Checkpoints in which one BF16 element in a hundred changes a step."""
    chooser = random.Random(7)
    weights = bytearray(chooser.randbytes(megabytes * 1_000_000))
    middle = len(weights) // 2
    header = {
        "model.embed.weight": {"dtype": "BF16", "shape": [middle // 200, 100], "data_offsets": [0, middle]},
        "model.norm.weight": {"dtype": "BF16", "shape": [middle // 2], "data_offsets": [middle, len(weights)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    steps = []
    for step in range(count):
        steps.append(folder / f"step_{step}")
        steps[-1].mkdir()
        (steps[-1] / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + weights)
        (steps[-1] / "config.json").write_text("{}")
        for _ in range(len(weights) // 200):
            weights[2 * chooser.randrange(len(weights) // 2)] ^= 1
    return steps


class StoreCommandLineTest(unittest.TestCase):
    """On a made-up run of small checkpoints."""

    folder: Path
    steps: list[Path]
    digests: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="xorbit-store-"))
        cls.steps = write_run(cls.folder, 5)
        cls.digests = [digest(step) for step in cls.steps]

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.folder)

    def setUp(self) -> None:
        self.work = Path(tempfile.mkdtemp(dir=self.folder))
        self.store = self.work / "store"
        self.sampler = self.work / "sampler"

    def publish_all(self, *anchored: int) -> None:
        for version, step in enumerate(self.steps):
            flags = ["--anchor"] if version in anchored else []
            self.assertEqual(answer("publish", self.store, step, *flags)["version"], version)

    def expect_pull(self, version: int, state: int | None = None) -> None:
        """The sampler can be brought to a version, and then holds the bytes of that step."""
        self.assertEqual(answer("pull", self.store, self.sampler, "--version", version)["version"], version)
        self.assertEqual(digest(self.sampler), self.digests[version if state is None else state])

    def record(self, version: int) -> Path:
        return self.store / "main" / f"v{version:06d}" / "version.json"

    def test_every_version_forward_and_back(self) -> None:
        self.publish_all()
        shown = answer("pull", self.store, self.sampler)
        self.assertEqual((shown["from"], shown["version"]), (None, 4))
        self.assertEqual(digest(self.sampler), self.digests[4])
        at = 4
        for version in (0, 3, 1, 4, 4, 2, 0):
            shown = answer("pull", self.store, self.sampler, "--version", version)
            self.assertEqual((shown["from"], shown["version"], shown["deltas"] == 0), (at, version, at == version))
            self.assertEqual(digest(self.sampler), self.digests[version])
            at = version
        self.assertIn("version 4", run("pull", self.store, self.sampler).stdout)
        self.assertIn("at version 4 of main already", run("pull", self.store, self.sampler).stdout)

    def test_log_tells_versions_deltas_and_anchors(self) -> None:
        self.publish_all(3)
        shown = answer("log", self.store)["versions"]
        self.assertEqual([entry["version"] for entry in shown], [4, 3, 2, 1, 0])
        self.assertEqual({entry["decision"] for entry in shown}, {"committed"})
        self.assertEqual([entry["version"] for entry in shown if entry["anchor"]], [3, 0])
        for entry in shown[:-1]:
            self.assertEqual(entry["parent"], entry["version"] - 1)
            self.assertIn(entry["parent"], [delta["from"] for delta in entry["deltas"]])
        self.assertEqual(len(run("log", self.store).stdout.splitlines()), 2 + 5)

    def test_gc_gives_up_old_anchors_and_keeps_the_ways(self) -> None:
        self.publish_all(1, 3)
        self.assertEqual(answer("gc", self.store)["given_up"], 1)
        self.assertEqual(answer("gc", self.store)["removed_objects"], 0)  # within the grace
        self.assertTrue(files_of(self.store / "main/v000001/full"))
        self.assertGreaterEqual(answer("gc", self.store, "--grace", 0)["removed_objects"], 2)
        self.assertEqual(files_of(self.store / "main/v000001/full"), [])
        self.assertEqual([e["version"] for e in answer("log", self.store)["versions"] if e["anchor"]], [3, 0])
        for version in (4, 0, 1):
            self.expect_pull(version)
        self.assertEqual(answer("publish", self.store, self.steps[0])["version"], 5)

    def test_frozen_tensors_stay_frozen(self) -> None:
        answer("publish", self.store, self.steps[0], "--frozen", "*")
        refused = run("publish", self.store, self.steps[1], expect=1)
        self.assertIn("a frozen tensor changed", refused.stderr)
        self.assertEqual(answer("publish", self.store, self.steps[0])["version"], 1)
        run("publish", self.store, self.steps[0], "--frozen", "no-such-tensor", expect=2)

    def test_wrong_uses_are_told_in_one_line(self) -> None:
        step = self.steps[0]
        for arguments in (
            ["publish"],
            ["publish", self.store],
            ["publish", self.store, step, "--owners", 0],
            ["publish", self.store, step, "--split", "diagonal"],
            ["publish", self.store, step, "--codec", "gzip"],
            ["publish", self.store, step, "--version", 3],
            ["publish", self.store, step, "--stream", "../other"],
            ["pull", self.store],
            ["pull", self.store, self.sampler, "--version", "-1"],
            ["pull", self.store, self.sampler, "--version", "newest"],
            ["pull", self.store, self.sampler, "--version", "1.5"],
            ["log"],
            ["gc", self.store, "--keep", 0],
            ["gc", self.store, "--grace", "-1"],
        ):
            run(*arguments, expect=2)
            self.assertFalse(self.store.exists(), arguments)
        for command in (["publish", "s3://bucket/run", step], ["log", "http://host/run"]):
            self.assertIn("folders only", run(*command, expect=1).stderr)
        self.publish_all()
        self.assertIn("version 9 is not published yet", run("pull", self.store, self.sampler, "--version", 9, expect=1).stderr)
        self.assertIn("no stream 'eval'", run("log", self.store, "--stream", "eval", expect=3).stderr)
        answer("publish", self.store, step, "--stream", "eval")
        self.assertIn("2 streams (eval, main)", run("log", self.store, expect=2).stderr)
        self.assertFalse(self.sampler.exists())

    def test_a_missing_store_is_not_made_by_reading(self) -> None:
        for command in (["pull", self.store, self.sampler], ["log", self.store], ["gc", self.store]):
            self.assertIn("there is no such folder", run(*command, expect=3).stderr)
            self.assertFalse(self.store.exists() or self.sampler.exists())
        self.store.mkdir()
        for command in (["pull", self.store, self.sampler], ["log", self.store], ["gc", self.store]):
            self.assertIn("holds no stream", run(*command, expect=3).stderr)
            self.assertEqual(list(self.store.iterdir()), [])
        run("publish", self.store, self.work / "no-checkpoint", expect=3)
        run("publish", self.steps[0] / "model.safetensors", self.steps[0], expect=3)  # a file in the store's place
        self.assertEqual(digest(self.steps[0]), self.digests[0])

    def test_a_damaged_object_is_refused_or_gone_around(self) -> None:
        self.publish_all(2)
        shutil.copytree(self.steps[0], self.sampler)
        answered = {0: 0, 1: 0}
        for path in files_of(self.store / "main"):
            good = path.read_bytes()
            bad = bytearray(good)
            bad[len(bad) // 2] ^= 0x10
            for damaged in (bytes(bad), good[: len(good) // 2], b""):
                path.write_bytes(damaged)
                code, _ = finish(start("pull", self.store, self.sampler, "--version", 4))
                answered[code] += 1
                self.assertEqual(digest(self.sampler), self.digests[4 if code == 0 else 0], path)
                path.write_bytes(good)
                self.expect_pull(0)
        self.assertGreater(min(answered.values()), 5)

    def test_a_lost_record_blocks_its_number_until_it_is_restored(self) -> None:
        self.publish_all()
        self.expect_pull(4)
        record = self.record(4).read_bytes()
        for lose in (
            lambda: self.record(4).unlink(),
            lambda: self.record(4).write_bytes(b""),
            lambda: self.record(4).write_bytes(record[:-9]),
        ):
            lose()
            error = run("publish", self.store, self.steps[0], expect=1).stderr
            self.assertIn("v000004/version.json", error)
            self.assertIn("restore it", error)
            self.record(4).write_bytes(record)
        self.record(4).unlink()
        self.assertEqual(self.listed_and_lost(), ([3, 2, 1, 0], ["v000004/version.json"]))
        run("pull", self.store, self.sampler, expect=1)  # it holds what the store no longer knows
        self.assertEqual(digest(self.sampler), self.digests[4])
        self.record(4).write_bytes(record)
        self.assertEqual(answer("publish", self.store, self.steps[0])["version"], 5)
        self.expect_pull(5, state=0)

    def listed_and_lost(self) -> tuple[list[int], list[str]]:
        shown = json.loads(run("log", self.store, "--json", expect=1).stdout)
        lost = [re.search(r"v\d+/version\.json", message).group() for message in shown["lost"]]
        return [entry["version"] for entry in shown["versions"]], lost

    def test_log_lists_what_is_there_and_names_what_is_lost(self) -> None:
        self.publish_all()
        self.assertEqual(answer("log", self.store)["lost"], [])
        records = {version: self.record(version).read_bytes() for version in range(5)}
        self.record(2).write_bytes(b"damaged")
        self.assertEqual(self.listed_and_lost(), ([4, 3, 1, 0], ["v000002/version.json"]))
        self.record(2).unlink()
        self.assertEqual(self.listed_and_lost(), ([4, 3, 1, 0], ["v000002/version.json"]))
        self.assertIn("v000002/version.json is missing", run("log", self.store, expect=1).stdout)
        (self.store / "main/head.json").unlink()  # then the newest version is not found by it
        self.record(3).unlink()
        self.assertEqual(self.listed_and_lost(), ([4, 1, 0], ["v000003/version.json", "v000002/version.json"]))
        for version in (2, 3):
            self.record(version).write_bytes(records[version])
        self.assertEqual(len(answer("log", self.store)["versions"]), 5)

    def test_one_size_whoever_tells_it(self) -> None:
        self.publish_all()
        published = answer("publish", self.store, self.steps[3])
        deltas = answer("log", self.store)["versions"][0]["deltas"]
        size = next(delta["bytes"] for delta in deltas if delta["from"] == 4)
        self.assertEqual(published["payload_bytes"] + published["manifest_bytes"], size)
        out = self.work / "delta"
        made = answer("diff", self.steps[3], self.steps[4], "-o", out)
        sent = made["payload_bytes"] + made["manifest_bytes"]
        shown = answer("inspect", out)
        self.assertEqual(shown["fetched_bytes"], sent)
        self.assertEqual(shown["bits_per_change"], made["bits_per_change"])
        self.assertAlmostEqual(made["bits_per_change"], 8 * sent / made["changed_elements"])

    def test_a_lost_stream_is_not_begun_again(self) -> None:
        self.publish_all()
        description = self.store / "main/stream.json"
        text = description.read_bytes()
        description.unlink()
        self.assertIn("stream.json is missing", run("publish", self.store, self.steps[1], expect=1).stderr)
        description.write_bytes(text)
        self.expect_pull(4)

    def test_a_limit_on_file_sizes_is_a_full_disk(self) -> None:
        code, error = finish(start("publish", self.store, self.steps[0], file_limit_bytes=500_000))
        self.assertEqual(code, 3, error)
        self.assertEqual(answer("publish", self.store, self.steps[0])["version"], 0)
        code, error = finish(start("publish", self.store, self.steps[1], file_limit_bytes=3_000))
        self.assertEqual(code, 3, error)
        self.assertEqual(answer("publish", self.store, self.steps[1])["version"], 1)
        code, error = finish(start("pull", self.store, self.sampler, file_limit_bytes=500_000))
        self.assertEqual(code, 3, error)
        self.assertEqual([path.name for path in self.work.iterdir()], ["store"])
        self.expect_pull(0)
        code, error = finish(start("pull", self.store, self.sampler, file_limit_bytes=3_000))  # no room for the journal
        self.assertEqual((code, digest(self.sampler)), (3, self.digests[0]), error)
        self.expect_pull(1)

    def test_a_full_disk(self) -> None:
        self.store.mkdir()
        if (
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1900k", "none", self.store], capture_output=True).returncode
            != 0
        ):
            self.skipTest("needs the right to mount")
        self.addCleanup(subprocess.run, ["umount", str(self.store)], check=True)
        answer("publish", self.store, self.steps[0])
        filler = self.store / "filler"
        filler.write_bytes(bytes(4096))
        with open(filler, "ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)) == 4096:
                    pass
            except OSError:
                pass
        self.assertIn("No space left", run("publish", self.store, self.steps[1], expect=3).stderr)
        filler.unlink()
        run("publish", self.store, self.steps[1], "--anchor", expect=3)  # published, but there is no room for all of it
        self.assertEqual(answer("publish", self.store, self.steps[2])["version"], 2)
        for version in (2, 1, 0):
            self.expect_pull(version)

    def test_two_publishers_at_once(self) -> None:
        for attempt in range(ROUNDS):
            store = self.work / f"store-{attempt}"
            tries = [start("publish", store, step, "--json") for step in self.steps[:2]]
            refused = [finish(process) for process in tries]
            if attempt == 0:
                self.assertIn(0, [code for code, _ in refused])
            for step, (code, error) in zip(self.steps[:2], refused, strict=True):
                self.assertIn(code, (0, 1), error)
                if code == 1:
                    self.assertIn("publish again", error)
                    answer("publish", store, step)
            self.store = store
            state_of = {answer("publish", store, step)["state"]: i for i, step in enumerate(self.steps[:2])}
            versions = answer("log", store)["versions"]
            self.assertEqual([entry["version"] for entry in versions], [3, 2, 1, 0])
            self.assertEqual({state_of[entry["state"]] for entry in versions[2:]}, {0, 1})
            for entry in versions:
                self.expect_pull(entry["version"], state=state_of[entry["state"]])
            shutil.rmtree(self.sampler)

    def test_killed_at_any_moment_the_next_publish_goes_on(self) -> None:
        seed = int(os.environ.get("XORBIT_TEST_SEED", "20261130"))
        print(f"kill test: seed {seed}, {3 * ROUNDS} kills", file=sys.stderr)
        chooser = random.Random(seed)
        began = time.monotonic()
        answer("publish", self.work / "usual", self.steps[0])
        usual = time.monotonic() - began
        side_file = self.work / "changing" / "tokenizer.json"
        shutil.copytree(self.steps[0], side_file.parent)
        for kill in range(3 * ROUNDS):
            self.store = self.work / f"store-{kill}"
            side_file.write_text(json.dumps({"kill": kill}))
            process = start("publish", self.store, side_file.parent)
            time.sleep(chooser.random() * usual)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            side_file.write_text(json.dumps({"after kill": kill}))
            step = (side_file.parent, self.steps[1])[kill % 2]
            published = answer("publish", self.store, step)
            self.assertIn(published["version"], (0, 1), f"kill {kill}")
            self.expect_pull(published["version"], state=kill % 2)
            shutil.rmtree(self.sampler)


if __name__ == "__main__":
    cli.XORBIT = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
