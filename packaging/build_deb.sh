#!/usr/bin/env bash
# Makes the Debian packages of the last commit in build/deb, in a Debian 12 of their own, and tries them in another one.
#
#   packaging/build_deb.sh
#
# Needs root, debootstrap and dpkg-dev. nanobind comes from PyPI: Debian 12 has none that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf build/deb
mkdir -p build/deb/tutti/nanobind
cd build/deb
version=$(../../packaging/fill.py --version)
git -C ../.. archive --prefix="tutti-$version/" HEAD | xz -T0 >"tutti_$version.orig.tar.xz"
python3 -m pip download -q --no-deps --only-binary :all: --dest . 'nanobind>=3.0.1,<4'
python3 -m zipfile -e nanobind-*.whl nanobind
tar -cJf "tutti_$version.orig-nanobind.tar.xz" nanobind
tar -xf "tutti_$version.orig.tar.xz" -C tutti --strip-components 1
mv nanobind tutti/
rm nanobind-*.whl
python3 ../../packaging/fill.py tutti debian
cd ../..

# The stages of packaging/deb.Dockerfile hold the packages in /deb; only that folder is kept.
stages=$(mktemp -d)
trap 'rm -rf "$stages"' EXIT
python3 tools/run_dockerfile.py --file packaging/deb.Dockerfile --folder "$stages" --keep
rm -r build/deb
cp -r "$stages/stage1/deb" build/deb
ls -l build/deb
