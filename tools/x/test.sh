# ./x test: everything that must hold before a change lands. All steps run even if one fails, so that one run tells everything.
#
# Builds: release, as users get it; clang with AddressSanitizer, UndefinedBehaviorSanitizer and libFuzzer, which also is the
# second compiler to read the code; ThreadSanitizer, for tests with the label `concurrency` only. --full adds tests with the label
# `soak`, a minute of fuzzing a target, kernels for all GPUs, and clang-tidy, which would take a change's test past its limit on two
# cores (`./x lint` runs it too).

RESULTS=build/test-results

# step NAME COMMAND...: runs it into a log, prints one line, and the end of the log if it failed.
step() {
  local name=$1 started=$SECONDS verdict=passed
  shift
  local log=$RESULTS/$name.log
  "$@" >"$log" 2>&1 </dev/null || verdict=failed
  printf '%-28s %s  %4d s\n' "$name" "$verdict" $((SECONDS - started))
  echo "$name $verdict" >>"$RESULTS/steps.txt"
  [[ $verdict == passed ]] || tail -n 60 "$log"
  [[ $verdict == passed ]]
}

# A subshell with -e, so that a step that consists of several commands stops at the first that fails.
strictly() { (
  set -e
  "$@"
); }

build_preset() {
  local preset=$1
  shift
  configure "$preset" "$@"
  cmake --build --preset "$preset" -j "$JOBS"
}

# test_preset PRESET CTEST OPTIONS: ctest counts its tests into a JUnit file, from which the last line is summed.
test_preset() {
  local preset=$1
  shift
  ctest --preset "$preset" --parallel "$JOBS" --output-junit "$PWD/$RESULTS/$preset.xml" "$@"
}

run_tests() {
  local full=no fuzz_seconds=3 without_soaks=(--label-exclude soak) gpus
  gpus=-DXORBIT_CUDA_ARCHITECTURES=$(local_architectures)
  case ${1:-} in
    '') ;;
    --full)
      full=yes fuzz_seconds=60 without_soaks=() gpus=-UXORBIT_CUDA_ARCHITECTURES
      export XORBIT_TEST_SEED=${XORBIT_TEST_SEED:-$RANDOM$RANDOM}
      echo "XORBIT_TEST_SEED=$XORBIT_TEST_SEED"
      ;;
    *) usage >&2 && return 2 ;;
  esac
  rm -rf "$RESULTS" && mkdir -p "$RESULTS"
  export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1

  step house-rules strictly lint_house_rules || true
  step cpp-format strictly lint_cpp_format || true
  step python-lint strictly lint_python || true
  step build-release strictly build_preset release -DXORBIT_TESTS=ON -DXORBIT_BENCHMARKS=ON "$gpus" &&
    step test-release strictly test_preset release "${without_soaks[@]}" || true
  step build-sanitized strictly build_preset fuzz -DXORBIT_TESTS=ON -DXORBIT_UNITY=ON "-DXORBIT_FUZZ_SECONDS=$fuzz_seconds" &&
    step test-sanitized strictly test_preset fuzz "${without_soaks[@]}" || true
  step build-threads strictly build_preset tsan &&
    step test-threads strictly test_preset tsan "${without_soaks[@]}" || true
  if [[ $full == yes ]]; then step clang-tidy strictly lint_clang_tidy || true; fi
  python3 tools/tally.py "$RESULTS"
}
