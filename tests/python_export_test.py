"""Weights that Python exports (python/xorbit), updated by a real server while steps are computed from them.

usage: python_export_test.py XORBIT (with unittest's options after it)
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from xorbit import ExportedWeights, export_weights
from xorbit.tensor_views import RawTensor

import command_line_test as cli
import store_command_line_test as store_test
from command_line_test import run
from serve_command_line_test import Sampler


def read_checkpoint(folder: Path) -> dict[str, RawTensor]:
    data = (folder / "model.safetensors").read_bytes()
    head_bytes = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, spec in json.loads(data[8 : 8 + head_bytes]).items():
        begin, end = (8 + head_bytes + offset for offset in spec["data_offsets"])
        tensors[name] = RawTensor(spec["dtype"], tuple(spec["shape"]), data[begin:end])
    return tensors


class PythonExportTest(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.steps = store_test.write_run(self.folder, 3)
        self.store = self.folder / "store"
        for step in self.steps:
            self.assertEqual(run("publish", self.store, step).returncode, 0)
        self.name = f"/xorbit-python-{os.getpid()}"
        self.attachment = self.folder / "engine.json"

    def export(self, tensors: dict[str, Any]) -> ExportedWeights:
        weights = export_weights(tensors, self.name, self.attachment, undo_bytes=8 << 20)
        self.addCleanup(weights.close)
        return weights

    def serve(self) -> Sampler:
        sampler = Sampler("--attach", self.attachment, "--store", self.store)
        self.addCleanup(sampler.kill)
        return sampler

    def test_a_server_updates_what_python_has_exported(self) -> None:
        weights = self.export(read_checkpoint(self.steps[0]))
        self.assertIsNone(weights.gate.try_enter())  # nobody has proven what it is
        self.assertTrue(weights.gate.is_closed)
        sampler = self.serve()
        for version in (0, 1, 2, 0):
            status, reply = sampler.post("/update_weights_from_gpu_delta", target_version=version)
            self.assertEqual(status, 200, reply)
            with weights.gate.step() as entered:
                self.assertEqual(entered, version)
                expected = read_checkpoint(self.steps[version])
                for name, tensor in weights.tensors.items():
                    self.assertEqual(bytes(tensor.data), expected[name].data, name)

    def test_a_step_is_waited_for(self) -> None:
        weights = self.export(read_checkpoint(self.steps[0]))
        sampler = self.serve()
        before = weights.gate.turn_count
        with weights.gate.step():
            status, reply = sampler.post("/update_weights_from_gpu_delta", target_version=1)
            self.assertEqual((status, "did not leave its weights in time" in reply["message"]), (409, True), reply)
        self.assertGreater(weights.gate.turn_count, before)
        self.assertEqual(weights.gate.turn_count % 2, 0)
        status, _ = sampler.post("/update_weights_from_gpu_delta", target_version=1)
        self.assertEqual(status, 200)

    def test_an_engine_that_has_ended_is_noticed(self) -> None:
        weights = self.export(read_checkpoint(self.steps[0]))
        sampler = self.serve()
        with self.assertRaisesRegex(RuntimeError, "a living process has exported"):
            export_weights(read_checkpoint(self.steps[1]), self.name, self.attachment)
        weights.close()
        status, health = sampler.ask("GET", "/health")
        self.assertEqual(status, 503)
        self.assertIn("has ended", health["message"])

    def test_what_a_killed_engine_has_left_is_removed(self) -> None:
        code = "import os, sys; sys.path.insert(0, sys.argv[1]); from xorbit import export_weights\n"
        code += "from xorbit.tensor_views import RawTensor\n"
        code += "export_weights({'a': RawTensor('U8', (3,), b'abc')}, sys.argv[2], sys.argv[3]); os._exit(0)"
        subprocess.run([sys.executable, "-c", code, sys.path[0], self.name, self.attachment], check=True)
        self.assertTrue(Path("/dev/shm" + self.name).exists())
        weights = self.export(read_checkpoint(self.steps[0]))
        self.assertEqual(len(weights.tensors), 2)
        self.serve()

    def test_what_cannot_be_exported_is_refused(self) -> None:
        for tensors, name, why in [
            ({"a": RawTensor("U128", (1,), b"")}, self.name, "type U128"),
            ({"a": RawTensor("F4", (3,), b"ab")}, self.name, "does not end on a byte"),
            ({"a": RawTensor("U8", (2,), b"abc")}, self.name, "3 bytes, not 2"),
            ({"a": RawTensor("U8", (1,), b"a")}, "engine", "not the name of shared memory"),
        ]:
            with self.assertRaisesRegex(ValueError, why):
                export_weights(tensors, name, self.attachment)
            self.assertFalse(self.attachment.exists())
            self.assertFalse(Path("/dev/shm" + self.name).exists())

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy here")
    def test_numpy(self) -> None:
        import numpy

        def arrays(step: Path) -> dict[str, Any]:
            return {name: numpy.frombuffer(raw.data, "u2").reshape(raw.shape) for name, raw in read_checkpoint(step).items()}

        self.check_library(arrays, numpy.array_equal)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_torch(self) -> None:
        import torch

        def tensors(step: Path) -> dict[str, Any]:
            return {
                name: torch.frombuffer(bytearray(raw.data), dtype=torch.int16).reshape(raw.shape)
                for name, raw in read_checkpoint(step).items()
            }

        self.check_library(tensors, torch.equal)

    def check_library(self, read: Any, is_equal: Any) -> None:
        """As integers: not every library knows BF16. The stream is one of the same integers."""
        self.store = self.folder / "integers"
        for step in self.steps:
            file = step / "model.safetensors"
            kind = b'"U16"' if "numpy" in type(next(iter(read(step).values()))).__module__ else b'"I16"'
            file.write_bytes(file.read_bytes().replace(b'"BF16"', kind + b" "))
            self.assertEqual(run("publish", self.store, step).returncode, 0)
        weights = self.export(read(self.steps[0]))
        sampler = self.serve()
        for version in (0, 2):
            self.assertEqual(sampler.post("/update_weights_from_gpu_delta", target_version=version)[0], 200)
            with weights.gate.step() as entered:
                self.assertEqual(entered, version)
                for name, tensor in read(self.steps[version]).items():
                    self.assertTrue(is_equal(weights.tensors[name], tensor), name)


if __name__ == "__main__":
    cli.XORBIT = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
