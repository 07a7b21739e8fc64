#!/usr/bin/env bash
# run_gpu.sh CHECK XORBIT OUT: every check and benchmark of the CUDA backend on this machine's first GPU, in under eight minutes.
#
# CHECK: the binary xorbit_gpu_check, XORBIT: the binary xorbit (both from a build with CUDA). OUT: a folder for what is
# written: log.txt with the output of all steps, results.csv with the rows of all benchmarks, command.csv with those of `xorbit
# bench`. One line a step on standard output; exit code 1 if any of them failed. Needs about 125 GB of device memory, and 64 GB of
# host memory for the densest payloads.
set -uo pipefail
check=$1 xorbit=$2 out=$3
mkdir -p "$out"
log=$out/log.txt
failed=0
readonly all_seconds=475

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  local left=$((all_seconds - SECONDS))
  [ "$limit" -le "$left" ] || limit=$left
  printf '\n== %s: %s\n' "$name" "$*" >>"$log"
  if [ "$limit" -gt 0 ]; then timeout "$limit" "$@" >>"$log" 2>&1 || code=$?; else code="none, no time is left"; fi
  [ "$code" = 0 ] || failed=1
  echo "$name: exit code $code, $((SECONDS - begin)) s"
}

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv >"$log" 2>&1
step parity 40 "$check" --parity 60
step sender-parity 25 "$check" --parity 0 --sender-parity 12
step mask-parity 35 "$check" --parity 0 --mask-parity 45
step fuzz-frames 20 "$check" --parity 0 --fuzz-frames 20000
step receiver-dense 75 "$check" --parity 0 --yardsticks 100 --bf16 100 --percent 10 --repeats 10 --no-undo-log
step share 60 "$check" --parity 0 --share 111.25
step mask-bench 60 "$check" --parity 0 --mask-bench 111.25 --mask-codec lz4 snappy --repeats 6
step sender 30 "$check" --parity 0 --sender-bench 40 --no-verify
step serving 60 "$check" --parity 0 --serving 60
step receiver 110 "$check" --parity 0 --bf16 100 --percent 0.1 1 3 --repeats 10 --no-undo-log
step dense 50 "$check" --parity 0 --bf16 4 --fp8 4 --percent 10 30 50 --bitmap 0 --repeats 10 --no-undo-log
step command 40 "$xorbit" bench --backend cuda --share 5 --bf16 5 --yardsticks 5 --percent 1 --csv "$out/command.csv"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck; do
    step "$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$check" --parity 1 --mask-parity 1 --fuzz-frames 800 \
      --sender-parity 3 --bf16 0.07 --percent 10 --repeats 1 --no-undo-log
  done
fi
grep -hE '^(time|note|serving),' "$log" >"$out/results.csv"
exit $failed
