# shellcheck shell=bash
# Installs what a command needs: packages of apt and of pip. Sourced by ./dev.

# section FILE NAME...: the entries of these sections.
section() {
  local file=$1
  shift
  awk -v wanted=" $* " '
    /^#/ || /^$/ { next }
    /^\[/ { name = substr($0, 2, length($0) - 2); next }
    index(wanted, " " name " ") { print }' "$file"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "need root or sudo for: $*"
  fi
}

apt_deps() {
  command -v dpkg-query >/dev/null || {
    say "no dpkg here: please install these by hand: $(section tools/apt-packages.txt "$@" | xargs)"
    return 0
  }
  # A package may be there for several architectures.
  local package missing=() native
  native=$(dpkg --print-architecture)
  for package in $(section tools/apt-packages.txt "$@"); do
    local name=${package%:*} architecture=$native
    [ "$name" = "$package" ] || architecture=${package#*:}
    dpkg-query -W -f '${db:Status-Status} ${Architecture}\n' "$name" 2>/dev/null |
      grep -qxE "installed ($architecture|all)" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing with apt: ${missing[*]}"
  for architecture in $(printf '%s\n' "${missing[@]}" | sed -n 's/.*://p' | sort -u); do
    as_root dpkg --add-architecture "$architecture"
  done
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null ||
    say "apt-get update failed; trying with the lists that are here"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
    "${missing[@]}" </dev/null
}

venv=$root/build/venv
readonly quiet_pip=(--disable-pip-version-check --no-input --progress-bar off)

pip_deps() {
  apt_deps python
  # pip comes last: without it the making of the environment was interrupted.
  [ -x "$venv/bin/pip" ] || /usr/bin/python3 -m venv "$venv"
  local packages
  mapfile -t packages < <(section tools/pip-packages.txt "$@")
  # The list of what was installed makes a second call cost nothing.
  local stamp="$venv/.installed" wanted
  wanted=$(printf '%s\n' "${packages[@]}")
  if [ -n "$(comm -23 <(sort <<<"$wanted") <(sort "$stamp" 2>/dev/null || true))" ]; then
    say "installing with pip into build/venv: ${packages[*]}"
    "$venv/bin/pip" install "${quiet_pip[@]}" "${packages[@]}" || return 1
    printf '%s\n' "$wanted" >>"$stamp"
  fi
}

# cmd_deps [--apt] [SECTION...]; --apt: no packages of pip.
cmd_deps() {
  local name apt=() pip=() only_apt=
  [ "${1-}" != --apt ] || { only_apt=1 && shift; }
  [ $# -gt 0 ] || set -- core tests check
  for name in "$@"; do
    grep -qxF "[$name]" tools/apt-packages.txt && apt+=("$name")
    grep -qxF "[$name]" tools/pip-packages.txt && pip+=("$name")
    grep -qxhF "[$name]" tools/apt-packages.txt tools/pip-packages.txt ||
      fail "no section $name in tools/apt-packages.txt or tools/pip-packages.txt"
  done
  [ ${#apt[@]} -eq 0 ] || apt_deps "${apt[@]}"
  [ ${#pip[@]} -eq 0 ] || [ "$only_apt" ] || pip_deps "${pip[@]}"
}
