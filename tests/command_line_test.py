"""The program as a user meets it: every command, its exit codes and answers, kill -9, and the real run where it is at hand.

usage: command_line_test.py XORBIT (with unittest's options after it)
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

XORBIT = ""
KILLS = int(os.environ.get("XORBIT_TEST_KILLS", "40"))


def run(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs xorbit and checks its exit code; errors are one line on standard error."""
    result = subprocess.run([XORBIT, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
    if result.returncode != expect:
        raise AssertionError(f"{arguments}: exit {result.returncode}, not {expect}\n{result.stdout}{result.stderr}")
    if result.returncode in (2, 3) or result.stderr:
        lines = result.stderr.strip().splitlines()
        if len(lines) != 1 or not lines[0].startswith("xorbit: "):
            raise AssertionError(f"{arguments}: not a one-line error: {result.stderr!r}")
    return result


def answer(*arguments: object, expect: int = 0) -> dict:
    return json.loads(run(*arguments, "--json", expect=expect).stdout)


def digest(path: Path) -> str:
    """SHA-256 over the weights of a checkpoint folder or file."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    sha = hashlib.sha256()
    for file in files:
        sha.update(file.read_bytes())
    return sha.hexdigest()


def unpack_rl_run(target: Path) -> list[Path] | None:
    """The five checkpoints of the real run, or None where XORBIT_TEST_DATA does not name them."""
    data = os.environ.get("XORBIT_TEST_DATA")
    if not data or not (Path(data) / "rl-run" / "unpack.py").exists():
        return None
    subprocess.run([sys.executable, str(Path(data) / "rl-run" / "unpack.py"), str(target)], check=True)
    return sorted(target.glob("step_*"))


class CommandLineTest(unittest.TestCase):
    """On the toy model's run, 30 MB a checkpoint."""

    folder: Path
    steps: list[Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="xorbit-cli-"))
        work = cls.folder / "demo"
        shown = answer("demo", "--megabytes", 30, "--work", work)
        assert len(shown["proofs"]) == 4, shown
        cls.steps = sorted(work.glob("step_*"))

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.folder)

    def setUp(self) -> None:
        self.work = Path(tempfile.mkdtemp(dir=self.folder))

    def test_diff_apply_verify_and_back(self) -> None:
        delta = self.work / "delta"
        made = answer("diff", self.steps[0], self.steps[1], "-o", delta)
        self.assertGreater(made["changed_elements"], 0)
        copy = self.work / "copy"
        run("apply", self.steps[0], delta, "-o", copy)
        self.assertEqual(digest(copy), digest(self.steps[1]))
        self.assertTrue((copy / "config.json").exists())
        self.assertEqual(run("verify", copy, delta).stdout, "target\n")
        self.assertEqual(run("verify", self.steps[0], delta).stdout, "base\n")
        self.assertEqual(run("verify", self.steps[3], delta, expect=1).stdout, "neither\n")
        run("apply", copy, delta, "--in-place", "--undo")
        self.assertEqual(digest(copy), digest(self.steps[0]))
        run("apply", copy, delta, "--in-place")
        self.assertEqual(digest(copy), digest(self.steps[1]))
        self.assertTrue(answer("apply", copy, delta, "--in-place")["already_there"])

    def test_single_file_checkpoints(self) -> None:
        old = self.steps[0] / "model.safetensors"
        run("diff", old, self.steps[1] / "model.safetensors", "-o", self.work / "delta")
        run("apply", old, self.work / "delta", "-o", self.work / "new.safetensors")
        self.assertEqual((self.work / "new.safetensors").read_bytes(), (self.steps[1] / "model.safetensors").read_bytes())
        self.assertEqual(sorted(p.name for p in self.work.iterdir()), ["delta", "new.safetensors"])

    def test_every_codec_and_split(self) -> None:
        for i, codec in enumerate(["sparse", "snappy", "lz4", "snappy+zstd", "lz4+zstd", "zstd"]):
            delta = self.work / f"delta-{codec}"
            split = ["whole", "range", "column"][i % 3]
            run("diff", self.steps[0], self.steps[1], "-o", delta, "--codec", codec, "--owners", i + 1, "--split", split)
            shown = answer("inspect", delta)
            self.assertEqual(shown["codec"], codec)
            self.assertEqual(len(shown["owners"]), i + 1)
            self.assertEqual(sum(t["changed_elements"] for t in shown["tensors"]), shown["changed_elements"])
            run("apply", self.steps[0], delta, "-o", self.work / f"copy-{codec}")
            self.assertEqual(digest(self.work / f"copy-{codec}"), digest(self.steps[1]))

    def test_same_bytes_whatever_threads_and_cpu(self) -> None:
        contents = set()
        for arguments in (["--threads", 1], ["--threads", 5], ["--cpu", "portable"]):
            delta = self.work / f"delta-{arguments[1]}"
            run("diff", self.steps[1], self.steps[2], "-o", delta, *arguments)
            contents.add(tuple((p.name, p.read_bytes()) for p in sorted(delta.rglob("*")) if p.is_file()))
        self.assertEqual(len(contents), 1)

    def test_fold_equals_the_direct_diff(self) -> None:
        chain = []
        for i in range(1, 5):
            chain.append(self.work / f"delta-{i}")
            run("diff", self.steps[i - 1], self.steps[i], "-o", chain[-1])
        run("fold", *chain, "-o", self.work / "folded", "--checkpoint", self.steps[0])
        run("diff", self.steps[0], self.steps[4], "-o", self.work / "direct")
        for name in ("folded", "direct"):
            self.assertTrue((self.work / name / "manifest.json").exists())
        for path in (self.work / "direct").rglob("*"):
            if path.is_file():
                twin = self.work / "folded" / path.relative_to(self.work / "direct")
                self.assertEqual(path.read_bytes(), twin.read_bytes(), path)
        copy = self.work / "copy"
        run("apply", self.steps[0], *chain[:2], "-o", copy)
        self.assertEqual(run("verify", copy, *chain).stdout, "after delta 2 of 4\n")
        run("apply", copy, *chain, "--in-place")
        self.assertEqual(digest(copy), digest(self.steps[4]))

    def test_miles_folders_both_ways(self) -> None:
        delta = self.work / "weight_v000001"
        run("diff", self.steps[0], self.steps[1], "-o", delta, "--format", "miles")
        run("apply", self.steps[0], delta, "-o", self.work / "copy")
        self.assertEqual(digest(self.work / "copy"), digest(self.steps[1]))
        ours = self.work / "delta"
        target = answer("diff", self.steps[0], self.steps[1], "-o", ours)["target"]
        self.assertEqual(answer("apply", self.steps[0], delta, "-o", self.work / "again")["digest"], target)
        second = self.work / "weight_v000002"  # the name says which version it is
        run("diff", self.steps[1], self.steps[2], "-o", second, "--format", "miles")
        written = json.loads((second / "model.safetensors.index.json").read_text())["metadata"]
        self.assertEqual((written["version"], written["base_version"]), ("000002", "000001"))
        run("diff", self.steps[0], self.steps[1], "-o", self.work / "weight_v000000", "--format", "miles", expect=2)
        shutil.copytree(self.steps[0], self.work / "live")
        self.assertEqual(answer("apply", self.work / "live", delta, "--in-place")["digest"], target)
        self.assertTrue(answer("apply", self.work / "live", delta, "--in-place")["already_there"])
        run("apply", self.work / "live", delta, "--in-place", "--undo", expect=1)  # the format cannot go back
        for reader in (["inspect", delta], ["verify", self.steps[0], delta], ["fold", delta, "-o", self.work / "x"]):
            self.assertIn("only apply takes weight_v folders", run(*reader, expect=3).stderr)
        run("diff", self.steps[0], self.steps[1], "-o", self.work / "x", "--format", "miles", "--codec", "lz4", expect=2)
        run("diff", self.steps[0], self.steps[1], "-o", self.work / "x", "--format", "miles", "--frozen", "*", expect=1)
        run("apply", self.steps[2], delta, "-o", self.work / "never", expect=1)
        self.assertFalse((self.work / "never").exists())

    def test_miles_chains_start_where_the_checkpoint_stands(self) -> None:
        chain = []
        for i in range(1, 4):
            chain.append(self.work / f"weight_v{i:06d}")
            run("diff", self.steps[i - 1], self.steps[i], "-o", chain[-1], "--format", "miles")
        live = self.work / "live"
        shutil.copytree(self.steps[0], live)
        broken = self.work / "weight_v000004"
        broken.mkdir()
        (broken / "model.safetensors.index.json").write_text("garbage")
        run("apply", live, *chain, broken, "--in-place", expect=1)
        self.assertEqual(digest(live), digest(self.steps[0]))
        run("apply", live, chain[0], "--in-place")
        run("apply", live, *chain, "--in-place")
        self.assertEqual(digest(live), digest(self.steps[3]))
        self.assertTrue(answer("apply", live, *chain, "--in-place")["already_there"])

    def test_demo_on_two_checkpoints_and_on_equal_ones(self) -> None:
        for steps in ((0, 1), (0, 1, 0), (0, 0)):
            shown = answer("demo", "--checkpoints", *(self.steps[step] for step in steps))
            self.assertEqual(len(shown["proofs"]), 4)

    def test_errors_are_one_line_whatever_the_path_is(self) -> None:
        hostile = self.work / "two\nlines\x1b[2J\xff"
        for arguments in (
            ["diff", hostile, self.steps[1], "-o", self.work / "delta"],
            ["apply", self.steps[0], hostile, "-o", self.work / "copy"],
            ["pull", hostile, self.work / "copy"],
            ["log", hostile],
        ):
            shown = run(*arguments, expect=3)
            self.assertIn("two\\x0alines\\x1b[2J", shown.stderr)
        run("two\nlines", expect=2)
        run("diff", "--two\nlines", expect=2)

    def test_stats_and_bench_answer(self) -> None:
        stats = answer("stats", self.steps[0], self.steps[1])
        self.assertEqual({c["codec"] for c in stats["codecs"]}, {"sparse", "snappy", "lz4", "snappy+zstd", "lz4+zstd", "zstd"})
        run("stats", self.steps[0], self.steps[1])
        bench = answer("bench", "--gigabytes", 0.01, "--rounds", 1, "--workload", "reference-bit", "bf16-1")
        for workload in bench["workloads"]:
            self.assertEqual(len({row["result_digest"] for row in workload["rows"]}), 1)

    def test_errors_are_one_line_with_the_right_exit_code(self) -> None:
        delta = self.work / "delta"
        run("diff", self.steps[0], self.steps[1], "-o", delta)
        run("diff", self.steps[0], self.steps[1], "-o", delta, expect=1)  # never over an existing delta
        run("diff", self.steps[0], self.work / "nothing", "-o", self.work / "x", expect=3)
        run("apply", self.steps[0], self.work / "nothing", "-o", self.work / "x", expect=3)
        run("apply", self.steps[2], delta, "-o", self.work / "x", expect=1)
        run("apply", self.steps[0], delta, expect=2)
        run("apply", self.steps[0], "-o", self.work / "x", expect=2)
        self.assertIn("needs --in-place", run("apply", self.steps[0], "--undo", expect=2).stderr)
        run("diff", self.steps[0], self.steps[1], "-o", self.work / "x", "--codec", "gzip", expect=2)
        for codec in (["--codec", "sparse"], ["--codec", "lz4"], []):  # a level of a Zstd that is not there
            refused = run("diff", self.steps[0], self.steps[1], "-o", self.work / "x", *codec, "--zstd-level", 3, expect=2)
            self.assertIn("--zstd-level", refused.stderr)
        self.assertFalse((self.work / "x").exists())
        self.assertIn("no command 'no-such-command'", run("no-such-command", expect=2).stderr)
        self.assertIn("see 'xorbit diff --help'", run("diff", self.steps[0], expect=2).stderr)
        self.assertIn("see 'xorbit --help'", run(expect=2).stderr)
        run("demo", "--megabytes", "nan", expect=2)
        run("bench", "--gigabytes", "nan", expect=2)
        run("bench", "--backend", "tpu", expect=2)
        self.assertRegex(run("bench", "--help").stdout, r"--no-payload-hash\s")
        unheard = ["--trainers", 2], ["--kills"], ["--gbps", 9], ["--share", 5], ["--csv", self.work / "x"], ["--scratch", "x"]
        for options in unheard:  # what would change nothing is refused
            run("bench", *options, "--gigabytes", 0.01, expect=2)
        run("bench", "--ranks", 2, "--percent", 1, 2, "--gigabytes", 0.01, expect=2)
        run("bench", "--ranks", 2, "--percent", "nan", expect=2)
        for options in (["--ranks", 2, "--nccl", "x"], ["--ranks", 2, "--devices", "all"], ["--ranks", 2, "--codec", "lz4"]):
            run("bench", *options, "--gigabytes", 0.01, expect=2)
        for options in (["--decoder", "cpu"], ["--serving"], ["--keep-state"], ["--no-payload-hash"], ["--ranks", 2]):
            refused = run("bench", "--end-to-end", *options, "--gigabytes", 0.01, expect=2)
            self.assertIn(options[0], refused.stderr)

    def test_ranks_change_together_though_one_is_killed(self) -> None:
        """Four sampler processes and two trainer processes; a sampler dies at each of three points of an update."""
        csv = self.folder / "ranks.csv"
        model = ("--gigabytes", 0.004, "--rounds", 2)
        ranks = answer("bench", "--ranks", 4, "--trainers", 2, *model, "--kills", "--csv", csv)
        self.assertEqual(ranks["wrong_bytes"], 0)
        self.assertIs(ranks["digests_equal"], True)
        self.assertEqual(ranks["versions"], 5)
        self.assertEqual(ranks["payload_objects"], 10)
        self.assertEqual(ranks["fetched_objects"], 10)
        median = {row["what"]: row["median"] for row in ranks["rows"]}
        self.assertGreater(median["pause of all ranks"], 0)
        self.assertEqual(median["a rank killed before its vote: pause of the others"], 0)
        self.assertGreater(median["a rank killed while it applied: pause of the others"], 0)
        pair = answer("bench", "--ranks", 2, "--engines", 2, *model, "--csv", csv)
        self.assertEqual(pair["fetched_objects"], 2)
        self.assertEqual(pair["wrong_bytes"], 0)
        lines = csv.read_text().splitlines()
        self.assertEqual(len(lines), 1 + len(ranks["rows"]) + len(pair["rows"]))
        self.assertEqual({line.count(",") for line in lines}, {12})
        run("bench", "--ranks", 1, "--kills", expect=2)
        run("bench", "--ranks", 65, expect=2)
        run("bench", "--ranks", 2, "--codec", "lz4", "--gigabytes", 0.01, expect=2)
        self.assertIn("experts do not divide", run("bench", "--ranks", 3, *model, expect=2).stderr)

    def test_a_step_reaches_the_sampler_over_a_link(self) -> None:
        csv, trace = self.folder / "end.csv", self.folder / "end.trace"
        share = ("--end-to-end", "--gigabytes", 0.02, "--rounds", 2, "--parts", 4, "--gbps", 400, "--rtt-ms", 10)
        for codec in ("sparse", "lz4+zstd"):
            end = answer("bench", *share, "--codec", codec)
            self.assertEqual((end["rounds"], end["wrong_bytes"]), (2, 0))
            phase = {row["phase"]: row for row in end["phases"]}
            self.assertGreater(phase["payload on the wire"]["least_ms"], 5)  # half a round trip
            self.assertGreater(phase["step done to resumed"]["least_ms"], phase["payload on the wire"]["least_ms"])
        answer("bench", *share, "--workload", "bf16-1", "--csv", csv, "--trace", trace)
        self.assertEqual(len(csv.read_text().splitlines()), 1 + len(phase))
        chart = self.folder / "chart.svg"
        plot = Path(__file__).resolve().parent.parent / "bench" / "plot_breakeven.py"
        subprocess.run([sys.executable, plot, csv, chart], check=True, timeout=60)
        self.assertIn("sparse, 1 % of BF16", chart.read_text())
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual(len([e for e in events if e["ph"] == "X"]), 2 * len(phase))
        run("bench", *share, "--gbps", 0, expect=2)
        run("bench", *share, "--parts", 65, expect=2)
        run("bench", *share, "--workload", "reference-fp4", expect=1)

    def test_bench_on_a_gpu_says_in_one_line_what_is_missing(self) -> None:
        if Path("/dev/nvidiactl").exists():
            self.skipTest("this machine has a GPU")
        refused = run("bench", "--backend", "cuda", expect=1)
        self.assertIn("CUDA", refused.stderr)
        self.assertEqual(refused.stdout, "")

    def test_a_flipped_byte_anywhere_is_refused(self) -> None:
        delta = self.work / "delta"
        run("diff", self.steps[0], self.steps[1], "-o", delta)
        before = digest(self.steps[0])
        for path in [p for p in delta.rglob("*") if p.is_file()]:
            good = path.read_bytes()
            for place in (0, len(good) // 3, len(good) // 2, len(good) - 2):
                bad = bytearray(good)
                bad[place] ^= 0x15
                path.write_bytes(bytes(bad))
                run("apply", self.steps[0], delta, "-o", self.work / "never", expect=1)
                self.assertFalse((self.work / "never").exists())
            path.write_bytes(good[: len(good) // 2])
            run("apply", self.steps[0], delta, "--in-place", expect=1)
            path.write_bytes(good)
        self.assertEqual(digest(self.steps[0]), before)

    def test_a_second_process_is_refused_while_one_applies(self) -> None:
        delta = self.work / "delta"
        run("diff", self.steps[0], self.steps[1], "-o", delta)
        copy = self.work / "copy"
        shutil.copytree(self.steps[0], copy)
        import fcntl

        (copy / ".xorbit").mkdir(exist_ok=True)
        with open(copy / ".xorbit" / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run("apply", copy, delta, "--in-place", expect=1)
        run("apply", copy, delta, "--in-place")

    def test_killed_at_any_moment_the_next_run_finishes_or_undoes(self) -> None:
        seed = int(os.environ.get("XORBIT_TEST_SEED", "20261129"))
        print(f"kill test: seed {seed}, {KILLS} kills", file=sys.stderr)
        chooser = random.Random(seed)
        delta = self.work / "delta"
        run("diff", self.steps[0], self.steps[1], "-o", delta)
        copy = self.work / "copy"
        shutil.copytree(self.steps[0], copy)
        digests = {digest(self.steps[0]): "base", digest(self.steps[1]): "target"}
        start = time.monotonic()
        run("apply", copy, delta, "--in-place")
        usual = time.monotonic() - start
        interrupted = 0
        for kill in range(KILLS):
            undo = [] if run("verify", copy, delta).stdout == "base\n" else ["--undo"]
            process = subprocess.Popen(
                [XORBIT, "apply", str(copy), str(delta), "--in-place", *undo],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(chooser.random() * usual * 1.2)
            process.send_signal(signal.SIGKILL)
            process.wait()
            state = subprocess.run([XORBIT, "verify", str(copy), str(delta)], capture_output=True, text=True, check=False)
            said = state.stdout.strip()
            self.assertIn(said, ("base", "target", "interrupted"), f"kill {kill}")
            if said == "interrupted":
                interrupted += 1
                self.assertEqual(state.returncode, 1)
                if kill % 2:
                    run("apply", copy, "--in-place", "--undo")  # without a delta: back to before
                else:
                    run("apply", copy, delta, "--in-place", *undo)  # the same command again: where it wanted to go
                    self.assertEqual(digests[digest(copy)], "base" if undo else "target", f"kill {kill}")
            else:
                self.assertEqual(digests[digest(copy)], said, f"kill {kill}: verify does not tell the truth")
            self.assertIn(digest(copy), digests, f"kill {kill}: neither base nor target")
        print(f"kill test: {interrupted} of {KILLS} interrupted between seal and end", file=sys.stderr)


class RealRunTest(unittest.TestCase):
    """Sizes and equality on five checkpoints of a real RL run."""

    def setUp(self) -> None:
        self.work = Path(tempfile.mkdtemp(prefix="xorbit-rl-"))
        self.addCleanup(shutil.rmtree, self.work)
        steps = unpack_rl_run(self.work)
        if steps is None:
            self.skipTest("XORBIT_TEST_DATA does not name the real run")
        self.steps = steps

    def test_sizes_and_round_trips(self) -> None:
        bounds = {1: (10.2, 266_600), 4: (11.3, 142_500)}
        for i in range(1, 5):
            delta = self.work / f"delta-{i}"
            made = answer("diff", self.steps[i - 1], self.steps[i], "-o", delta)
            if i in bounds:
                bits, miles_bytes = bounds[i]
                self.assertLessEqual(made["bits_per_change"], bits)
                self.assertLessEqual(made["payload_bytes"] + made["manifest_bytes"], 0.53 * miles_bytes)
            run("apply", self.steps[i - 1], delta, "-o", self.work / f"copy-{i}")
            self.assertEqual(digest(self.work / f"copy-{i}"), digest(self.steps[i]))


if __name__ == "__main__":
    XORBIT = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
