# shellcheck shell=bash
# The plug-in for torch and LibTorch, and their tests. Sourced by ./dev.

# The plug-in is a user of the library like any other: its wheel is built for an installed one, the one that
# the other tests have tried, so that nothing is compiled but itself.
torch_build() {
  [ -n "$python_installed" ] || build_part python || return 1
  torch_wheel &&
    "$venv/bin/pip" install "${quiet_pip[@]}" -q --no-index --no-deps --force-reinstall \
      build/wheels/tutti_torch-*.whl
}

torch_wheel() {
  local log=$root/build/torch.log
  rm -f build/wheels/tutti_torch-*.whl
  build dev tutti tutti_c tuttirun tutti_cli tutti_bench_tutti tutti_backend_mpi tutti_backend_nccl &&
    cmake --install build/dev --prefix build/torch/prefix >"$log" &&
    CXX=${CXX:-c++} "$venv/bin/pip" wheel ./torch "${quiet_pip[@]}" -v \
      --no-build-isolation --no-deps -w build/wheels --config-settings=cmake.define.TUTTI_WERROR=ON \
      "--config-settings=cmake.define.CMAKE_PREFIX_PATH=$root/build/torch/prefix" \
      "--config-settings=build-dir=$root/build/torch/wheel" >>"$log" 2>&1 || {
    cat "$log"
    return 1
  }
}

# torch_cpp_build [KIND FLAGS TARGET]: the library for LibTorch and the programs that try it: users of the same installed
# library, or of that of another kind of build.
torch_cpp_build() {
  local folder=build/torch/cpp${1:+_$1} prefix=build/torch/prefix${1:+_$1} log=$root/build/torch_cpp${1:+_$1}.log
  cmake -S tests/python/torch_backend/cpp -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    "-DCMAKE_CXX_FLAGS_DEBUG=${2:--O0}" -DTUTTI_WERROR=ON \
    "-DCMAKE_PREFIX_PATH=$root/$prefix;$(echo "$venv"/lib/python3*/site-packages/torch/share/cmake)" >"$log" 2>&1 &&
    cmake --build "$folder" ${3:+--target "$3"} >>"$log" 2>&1 || {
    cat "$log"
    return 1
  }
}

# The cases of LibTorch on 2 ranks, under tsan. torch is built without it; -Wno-tsan is for a fence in its headers, which
# only objects of Python need.
torch_cpp_tsan() {
  say "the library for LibTorch under tsan"
  build tsan tutti tuttirun tutti_cli tutti_bench_tutti tutti_backend_mpi tutti_backend_nccl &&
    cmake --install build/tsan --prefix build/torch/prefix_tsan >/dev/null &&
    torch_cpp_build tsan "-O1 -g1 -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan" torch_checks &&
    TUTTI_LONG_TESTS=0 TORCH_CPP_BUILD=$root/build/torch/cpp_tsan PYTHONPATH="$root/tests/python" \
      TSAN_OPTIONS="ignore_noninstrumented_modules=1:second_deadlock_stack=1" \
      "$venv/bin/python" -m pytest -q tests/python/torch_backend/cpp_test.py -k "test_case and 2"
}

torch_tests() {
  rm -f build/torch.xml
  finish_pip # two of them at once would spoil the environment
  if ! pip_deps python torch; then
    say "the tests of the plug-in are skipped: pip cannot get $(section tools/pip-packages.txt torch)"
    echo '<testsuite><testcase name="torch"><skipped message="no torch"/></testcase></testsuite>' \
      >build/torch.xml
    results+=("build/torch.xml")
    return 0
  fi
  say "building the plug-in for torch.distributed"
  built torch || return 0
  local resting=()
  if changed torch/cpp torch/src examples/torch tests/python/torch_backend/cpp tests/python/torch_backend/cpp_test.py; then
    echo "the library for LibTorch: runs, because it has changed"
  else
    its_turn "the library for LibTorch" 3 1 || resting+=(--ignore tests/python/torch_backend/cpp_test.py)
  fi
  if [ ${#resting[@]} -eq 0 ]; then
    say "building the library for LibTorch"
    timed "torch: building for LibTorch" torch_cpp_build || {
      broken=$((broken + 1))
      return 0
    }
  fi
  its_turn "ranks that are lost in training, through torch" 3 2 || resting+=(--ignore tests/python/torch_backend/training_test.py)
  its_turn "the benchmarks through torch" 6 3 || resting+=(--ignore tests/python/torch_backend/bench_test.py)
  # Their packages are installed only where these tests run.
  if ! its_turn "the clients of torch.distributed" 6 4; then
    resting+=(--ignore tests/python/torch_backend/clients)
  elif ! pip_deps clients; then
    say "the clients of torch.distributed are skipped: pip cannot get them"
    resting+=(--ignore tests/python/torch_backend/clients)
  fi
  say "tests of the plug-in"
  timed "torch: tests" env PYTHONPATH="$root/tests/python" \
    python3 tools/run_with_stacks.py --timeout $limit_python -- \
    "$venv/bin/python" -m pytest -q "${python_workers[@]}" -o faulthandler_timeout=60 \
    --junitxml build/torch.xml "${resting[@]}" tests/python/torch_backend || true
  results+=("build/torch.xml")
}

# What takes long of LibTorch's tests, of the layers and of training, and the clients; then torch's own tests of a
# backend, as its wheel holds them.
torch_conformance() {
  pip_deps torch conformance clients || {
    say "torch's own tests are skipped: pip cannot get them"
    return 0
  }
  torch_build && torch_cpp_build && PYTHONPATH="$root/tests/python" \
    python3 tools/run_with_stacks.py --timeout $limit_python -- \
    "$venv/bin/python" -m pytest -q tests/python/torch_backend/{cpp,layers,examples,training,nn}_test.py tests/python/torch_backend/clients &&
    torch_cpp_tsan &&
    python3 tools/run_with_stacks.py --timeout $limit_python -- \
      "$venv/bin/python" tests/python/torch_backend/conformance/run.py
}
