# shellcheck shell=bash
# The wheel of the Python package, and its tests. Sourced by ./dev.

python_tests() {
  built python || return 0
  say "tests of the Python package"
  rm -f build/pytest.xml
  local resting=()
  its_turn "the notebook" 3 2 || resting+=(--ignore tests/python/notebook)
  its_turn "pickles whose checks are taken away" 3 1 ||
    resting+=(--deselect tests/python/distributed/dist_pickle_fuzz_test.py::test_each_check_is_missed)
  timed "python: tests" python3 tools/run_with_stacks.py --timeout $limit_python -- \
    "$venv/bin/python" -m pytest -q "${python_workers[@]}" -o faulthandler_timeout=60 "${resting[@]}" \
    --junitxml build/pytest.xml tests/python || true
  results+=("build/pytest.xml")
}

# The tests run from the wheel, as it is installed: so it is tried, and nothing is compiled twice. The
# compiler is that of the presets; Debian's Python would name another one, and ccache tells them apart.
python_wheel() {
  say "building the wheel"
  rm -f build/wheels/tutti-*.whl
  CXX=${CXX:-c++} "$venv/bin/pip" wheel . "${quiet_pip[@]}" -v \
    --no-build-isolation --no-deps -w build/wheels --config-settings=cmake.define.TUTTI_WERROR=ON \
    --config-settings=cmake.define.TUTTI_UNITY=${TUTTI_UNITY:-ON} \
    --config-settings=cmake.define.TUTTI_CUDA_ARCHITECTURES=90 \
    >build/python.log 2>&1 || {
    cat build/python.log
    return 1
  }
}

python_install() {
  "$venv/bin/pip" install "${quiet_pip[@]}" -q --no-index --no-deps --force-reinstall \
    build/wheels/tutti-*.whl
}

# wheels [--torch] [pythons]: into dist/, each tried in a new virtual environment.
cmd_wheels() {
  apt_deps core python
  python3 tools/build_wheels.py "$@"
}

long_python_tests() {
  pip_deps python || return 1
  pip_deps torch || say "torch is not to be had here: what compares with it is skipped"
  python_wheel && python_install &&
    python3 tools/run_with_stacks.py --timeout $limit_long_python -- \
      "$venv/bin/python" -m pytest -q "${python_workers[@]}" tests/python
}

# As README says, in an environment that has nothing yet: `pip install . numpy`, then its program.
pip_install_check() {
  local fresh=build/fresh-venv
  rm -rf "$fresh"
  python3 -m venv "$fresh" && "$fresh/bin/pip" install "${quiet_pip[@]}" -q . numpy &&
    sed -n '/^```python$/,/^```$/p' README.md | sed '/^```/d' >build/program.py &&
    (cd build && PATH="$root/$fresh/bin:$PATH" timeout 60 tuttirun --nproc-per-node 4 program.py)
}
