# Static checks. Each is a function that prints what is wrong and fails, so that ./x test can count them one by one.

list_files() { git ls-files --cached --others --exclude-standard -- "$@"; }

lint_house_rules() { python3 tools/tidy.py; }

lint_cpp_format() {
  install_python_tools
  list_files '*.cc' '*.h' '*.cu' '*.cuh' | xargs build/venv/bin/clang-format --dry-run -Werror
}

lint_python() {
  install_python_tools
  build/venv/bin/ruff check --quiet . && build/venv/bin/ruff format --quiet --check .
}

# Reads the compile commands of the fuzz preset, because those are clang's own.
lint_clang_tidy() {
  local clang
  clang=$(find_clang)
  configure fuzz -DXORBIT_TESTS=ON -DXORBIT_UNITY=OFF
  cmake --build --preset fuzz --target common_headers >/dev/null # precompiled, and read by every command
  python3 tools/clang_tidy.py "clang-tidy-${clang##*-}" build/fuzz/compile_commands.json build/clang-tidy-passed
}

run_lint() {
  mkdir -p build
  local failed=0 check
  for check in lint_house_rules lint_cpp_format lint_python lint_clang_tidy; do
    "$check" || failed=1
  done
  return $failed
}

format_in_place() {
  mkdir -p build
  install_python_tools
  list_files '*.cc' '*.h' '*.cu' '*.cuh' | xargs build/venv/bin/clang-format -i
  build/venv/bin/ruff check --quiet --fix . && build/venv/bin/ruff format --quiet .
}
