#!/bin/sh
# Cross-builds the CPU kernels for AArch64 and runs their self-check under user-mode emulation.
# Exit code 77 (skipped) where the cross compiler or the emulator is missing.
set -eu
compiler=${XORBIT_AARCH64_CXX:-aarch64-linux-gnu-g++}
emulator=${XORBIT_AARCH64_EMULATOR:-qemu-aarch64-static}
for tool in "$compiler" "$emulator"; do
  if ! command -v "$tool" > /dev/null; then
    echo "skipped: $tool is not installed"
    exit 77
  fi
done
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$compiler" -std=c++20 -O2 -Wall -Wextra -Werror -static -I"$root/src" -o "$folder/self_check" \
  "$root/tests/kernels_self_check.cc" "$root/src/base/cpu_level.cc" "$root/src/backend/cpu/kernels.cc" \
  "$root/src/backend/cpu/kernels_portable.cc" "$root/src/backend/cpu/kernels_neon.cc"
"$emulator" "$folder/self_check" > "$folder/output"
cat "$folder/output"
# The emulator must have offered NEON, or nothing was compared.
grep -q "^level neon" "$folder/output"
