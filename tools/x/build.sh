# Configuring and building the presets; and what builds on nothing else: benchmarks and fuzzing.

JOBS=$(nproc)

# Compilations are cached where ccache is installed, in such a way that another clone of the repository finds them too.
use_ccache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
}

# The newest clang++ that is installed under a versioned name: it has libFuzzer, and precompiles the headers of all libraries.
find_clang() {
  local version
  for version in 19 18 17 16 15 14; do
    if command -v "clang++-$version" >/dev/null; then echo "clang++-$version" && return 0; fi
  done
  echo "x: no clang++ found for the sanitized builds" >&2
  return 1
}

# configure PRESET [CMAKE OPTIONS]
configure() {
  local preset=$1
  shift
  use_ccache
  if [[ $preset == fuzz || $preset == tsan ]]; then set -- "-DCMAKE_CXX_COMPILER=$(find_clang)" "$@"; fi
  cmake --preset "$preset" "$@" >"build/configure-$preset.log" || { cat "build/configure-$preset.log" && return 1; }
}

# The GPU architectures to build kernels for where a build is for this machine: its own, or where it has no GPU the oldest, since what
# compiles for that compiles for all. All of them take four times as long.
local_architectures() {
  local own
  own=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u | sed 's/$/-real/' | paste -sd ';')
  echo "${own:-80-real}"
}

# build_binary CMAKE_OPTION: the option says for which GPUs.
build_binary() {
  mkdir -p build
  configure release -DXORBIT_TESTS=OFF -DXORBIT_BENCHMARKS=OFF "$1"
  cmake --build --preset release --target xorbit -j "$JOBS"
}

# The rivals' own tools, in a virtual environment of their own: bench/rivals/requirements.txt.
run_rivals() {
  local stamp=build/rivals/requirements.txt
  if ! cmp -s bench/rivals/requirements.txt "$stamp"; then
    python3 -m venv build/rivals
    build/rivals/bin/pip install --quiet --disable-pip-version-check -r bench/rivals/requirements.txt
    cp bench/rivals/requirements.txt "$stamp"
  fi
  build/rivals/bin/python bench/run_rivals.py --xorbit build/release/xorbit "$@"
}

run_bench() {
  mkdir -p build
  configure release -DXORBIT_TESTS=OFF -DXORBIT_BENCHMARKS=ON "-DXORBIT_CUDA_ARCHITECTURES=$(local_architectures)"
  cmake --build --preset release -j "$JOBS"
  local name=${1:-}
  if [[ $name == rivals ]]; then
    run_rivals "${@:2}"
  elif [[ -n $name && -x build/release/bench/${name}_bench ]]; then
    "build/release/bench/${name}_bench" "${@:2}"
  else
    build/release/xorbit bench "$@"
  fi
}

# run_fuzz [NAME|all] [SECONDS]: stops at the first target that finds something.
run_fuzz() {
  local name=${1:-all} seconds=${2:-60} pattern='.*'
  [[ $name == all ]] || pattern=$name
  mkdir -p build
  configure fuzz -DXORBIT_TESTS=ON "-DXORBIT_FUZZ_SECONDS=$seconds"
  cmake --build --preset fuzz -j "$JOBS"
  ctest --preset fuzz --tests-regex "^fuzz\.$pattern\$" --parallel "$JOBS" --verbose --stop-on-failure --timeout $((seconds + 120))
}
