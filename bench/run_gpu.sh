#!/usr/bin/env bash
# run_gpu.sh CHECK XORBIT OUT: every check and benchmark of the CUDA backend on this machine's first GPU, in under eight minutes.
#
# CHECK: the binary xorbit_gpu_check, XORBIT: the binary xorbit (both from a build with CUDA). OUT: a folder for what is
# written: a log of each step, and results.csv with the rows of all benchmarks. One line a step on standard output; exit code 1
# if any of them failed. Needs about 125 GB of device memory, and 64 GB of host memory for the densest payloads.
set -uo pipefail
check=$1 xorbit=$2 out=$3
mkdir -p "$out"
failed=0

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  local code=$?
  [ "$code" = 0 ] || failed=1
  echo "$name: exit code $code, $((SECONDS - begin)) s"
}

sanitized() {
  step "$1-receiver" 40 compute-sanitizer --tool "$1" --error-exitcode 9 "$check" --parity 1
  step "$1-sender" 40 compute-sanitizer --tool "$1" --error-exitcode 9 "$check" --parity 0 --sender-parity 3
}

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv >"$out/machine.log" 2>&1
step parity 60 "$check" --parity 60
step sender-parity 40 "$check" --parity 0 --sender-parity 12
step sender 30 "$check" --parity 0 --sender-bench 40 --no-verify
step receiver-dense 90 "$check" --parity 0 --yardsticks 100 --bf16 100 --percent 10 --repeats 10 --no-undo-log
step serving 60 "$check" --parity 0 --serving 60
step share 80 "$check" --parity 0 --share 111.25
step receiver 100 "$check" --parity 0 --bf16 100 --percent 0.1 1 3 --repeats 10 --no-undo-log
step dense 60 "$check" --parity 0 --bf16 4 --fp8 4 --percent 10 30 50 --bitmap 0 --repeats 10 --no-undo-log
step command 40 "$xorbit" bench --backend cuda --share 5 --bf16 5 --yardsticks 5 --percent 1 --csv "$out/command.csv"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck; do sanitized "$tool"; done
fi
grep -hE '^(time|note|serving),' "$out"/*.log >"$out/results.csv"
exit $failed
