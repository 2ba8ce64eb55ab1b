#!/usr/bin/env bash
# Checks one integration in an empty environment of its own:
#
#     integrations/check.sh lightgbm|jax|ray|vllm
#
# It installs tutti and the stock packages of the section NAME of tools/pip-packages.txt into
# build/integrations/NAME/venv, then runs the tests, the example and the benchmark of integrations/NAME. The wheel of
# tutti is that of TUTTI_WHEEL, or else built here. JAX is also tried in one program with torch, whose plug-in is the wheel of
# TUTTI_TORCH_WHEEL, or else its Python fallback.
set -euo pipefail

cd "$(dirname "$0")/.."
name=${1-}
[ -n "$name" ] && [ $# -eq 1 ] && [ -f "integrations/$name/README.md" ] || {
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
folder=$PWD/build/integrations/$name
venv=$folder/venv
pip=("$venv/bin/pip" --disable-pip-version-check --no-input -q)
say() { printf '\n==> %s: %s\n' "$name" "$*"; }

section() {
  awk -v name="[$1]" '/^#/ || /^$/ { next } /^\[/ { on = $0 == name; next } on' tools/pip-packages.txt
}
mapfile -t packages < <(section "$name")
[ ${#packages[@]} -gt 0 ] || { echo "tools/pip-packages.txt has no section [$name]" >&2; exit 2; }
mkdir -p "$folder"
say "an empty environment"
/usr/bin/python3 -m venv --clear "$venv"
wheel=${TUTTI_WHEEL-}
if [ -z "$wheel" ]; then
  say "building tutti"
  rm -f "$folder"/wheels/*.whl
  CXX=${CXX-c++} "${pip[@]}" wheel . --no-deps -w "$folder/wheels"
  wheel=$(echo "$folder"/wheels/tutti-*.whl)
fi
say "installing $(basename "$wheel") ${packages[*]}"
"${pip[@]}" install "$wheel" pytest "${packages[@]}"
if [ "$name" = vllm ]; then
  # torchvision and its like are for CUDA here, and then break an import of vLLM's. tutti-torch is built for vLLM's torch.
  "${pip[@]}" uninstall -y torchvision torchaudio torchcodec
  "${pip[@]}" install "scikit-build-core>=0.11,<2"
  CXX=${CXX-c++} "${pip[@]}" install --no-build-isolation ./bindings/torch
fi
own="integrations/$name/pyproject.toml" # a package beside tutti's
[ ! -f "$own" ] || "${pip[@]}" install --no-deps "./integrations/$name"

export PATH="$venv/bin:$PATH"
say "tests"
timeout 2400 pytest -q -o faulthandler_timeout=120 --junitxml "$folder/results.xml" "integrations/$name/tests"
say "example"
case $name in
  ray | vllm) timeout 300 python "integrations/$name/example.py" ;; # these start their processes themselves
  *) timeout 300 tuttirun --nproc-per-node 2 "integrations/$name/example.py" ;;
esac
say "benchmark"
timeout 600 python "integrations/$name/bench.py"

if [ "$name" = jax ]; then
  say "one program with torch"
  mapfile -t packages < <(section torch)
  "${pip[@]}" install "${packages[@]}" ${TUTTI_TORCH_WHEEL:+"$TUTTI_TORCH_WHEEL"}
  timeout 300 pytest -q -k with_torch --junitxml "$folder/with_torch.xml" integrations/jax/tests/process_test.py
fi
