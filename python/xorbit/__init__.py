"""The engine's side of `xorbit serve --attach` for engines in Python: weights in shared memory, and the gate before them."""

from .engine_gate import EngineGate
from .exported_weights import ExportedWeights, export_weights

__all__ = ["EngineGate", "ExportedWeights", "export_weights"]
