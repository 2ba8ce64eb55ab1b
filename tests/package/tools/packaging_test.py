"""The recipes of packaging/, and the list of what a build is made of: they agree with the build."""

import ast
import configparser
import hashlib
import json
import pathlib
import re
import sys

from planted import ROOT, FolderTest, run

import run_dockerfile
import sbom

PACKAGING = ROOT / "packaging"
sys.path.append(str(PACKAGING))

import try_floors  # noqa: E402

RECIPES = ["conda-forge/recipe.yaml", "vcpkg/vcpkg.json", "vcpkg/portfile.cmake", "vcpkg/usage", "spack/package.py"]
# A dependency of cmake/TuttiDependencies.cmake, as conda-forge and Spack call it.
NAMES = {"fmt": ("fmt", "fmt"), "hwy": ("libhwy", "highway"), "nlohmann_json": ("nlohmann_json", "nlohmann-json"),
         "CLI11": ("cli11", "cli11"), "OpenSSL": ("openssl", "openssl")}


def text(path):
    return path.read_text(encoding="utf-8")


def floors():
    """The oldest version of each dependency that the build takes."""
    asked = re.findall(r"find_package\((\w+) ([\d.]+)", text(ROOT / "cmake/TuttiDependencies.cmake"))
    return {name: version for name, version in asked if name in NAMES}


def paragraphs(path):
    """The paragraphs of a control file of Debian, as fields."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text(path).strip()):
        parser = configparser.ConfigParser(delimiters=[":"], interpolation=None)
        parser.read_string("[p]\n" + re.sub(r"(?m)^ \.$", " -", paragraph))
        found.append(parser["p"])
    return found


class Recipes(FolderTest):
    def test_each_says_that_nobody_has_built_it(self):
        for name in RECIPES:
            self.assertIn("Not built", "".join(text(PACKAGING / name).splitlines()[:3]), name)

    def test_they_have_the_floors_of_the_build(self):
        self.assertEqual(set(floors()), set(NAMES))
        conda, spack = text(PACKAGING / RECIPES[0]), text(PACKAGING / RECIPES[-1])
        for name, version in floors().items():
            of_conda, of_spack = NAMES[name]
            self.assertRegex(conda, rf"(?m)^    - {of_conda} >={re.escape(version)}$")
            self.assertRegex(spack, rf'depends_on\("{of_spack}@{re.escape(version)}:"')

    def test_filled_in_they_have_the_version_and_the_hashes(self):
        archive = self.plant("tutti.tar.gz", "sources")
        done = run(sys.executable, PACKAGING / "fill.py", "--archive", archive, self.root / "filled")
        self.assertEqual(done.returncode, 0, done.stderr)
        version = json.loads(text(self.root / "filled/vcpkg/vcpkg.json"))["version"]
        self.assertIn(f"  VERSION {version}\n", text(ROOT / "CMakeLists.txt"))
        self.assertIn(hashlib.sha512(b"sources").hexdigest(), text(self.root / "filled/vcpkg/portfile.cmake"))
        ast.parse(text(self.root / "filled/spack/package.py"))
        for name in ("conda-forge/recipe.yaml", "spack/package.py"):
            self.assertIn(hashlib.sha256(b"sources").hexdigest(), text(self.root / "filled" / name))
        self.assertRegex(text(self.root / "filled/debian/changelog"), rf"^tutti \({version}-1\) .*\n(.*\n)+ -- .*  \w{{3}}, \d")
        for path in (self.root / "filled").rglob("*"):
            self.assertFalse(path.is_file() and re.search(r"@[A-Z0-9]+@", text(path)), path)

    def test_an_unknown_recipe_is_refused(self):
        done = run(sys.executable, PACKAGING / "fill.py", self.root, "homebrew")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no recipe homebrew; there are", done.stderr)


class Debian(FolderTest):
    def test_each_package_installs_something_and_the_build_has_what_it_needs(self):
        source, *packages = paragraphs(PACKAGING / "debian/control")
        installs = {path.stem for path in (PACKAGING / "debian").glob("*.install")}
        self.assertEqual({package["Package"] for package in packages}, installs)
        core = text(ROOT / "tools/apt-packages.txt").split("[core]")[1].split("[")[0].split()
        needed = {name for name in core if name.endswith("-dev")}
        self.assertTrue(needed)
        self.assertLessEqual(needed, set(re.findall(r"[\w+-]+", source["Build-Depends"])))

    def test_its_own_tests_are_there_and_are_understood_by_a_shell(self):
        named = [name for each in paragraphs(PACKAGING / "debian/tests/control") for name in each["Tests"].split(", ")]
        self.assertEqual({path.name for path in (PACKAGING / "debian/tests").iterdir()}, {*named, "control"})
        for name in named:
            self.assertTrue((PACKAGING / "debian/tests" / name).stat().st_mode & 0o111, name)
            run("sh", "-n", PACKAGING / "debian/tests" / name, check=True)
        run("bash", "-n", PACKAGING / "build_deb.sh", check=True)

    def test_its_dockerfile_is_understood(self):
        stages = run_dockerfile.stages(text(PACKAGING / "deb.Dockerfile"))
        self.assertEqual([name for name, _, _ in stages], ["build", ""])


class Floors(FolderTest):
    def test_what_is_run_in_each_release_is_understood(self):
        for image in try_floors.RELEASES:
            for wheels in (self.root, None):
                stage, = run_dockerfile.stages(f"FROM {image}\n{try_floors.text_for(image, wheels)}")
                self.assertIn(stage[1], run_dockerfile.RELEASES)
                for kind, words in stage[2]:
                    if kind == "RUN":
                        run("sh", "-n", "-c", words, check=True)
                    elif kind == "COPY":
                        self.assertTrue((ROOT / words[0]).is_dir(), words)

    def test_the_sources_get_what_the_build_needs(self):
        core = text(ROOT / "tools/apt-packages.txt").split("[core]")[1].split("[")[0].split()
        self.assertLessEqual({name for name in core if name.endswith("-dev")}, set(try_floors.SOURCES.split()))

    def test_wheels_or_sources_in_known_releases(self):
        for words, problem in (((), "either wheels or --sources"), (("--sources", "--releases", "debian:1"), "no such release: debian:1")):
            done = run(sys.executable, PACKAGING / "try_floors.py", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(problem, done.stderr)


class Sbom(FolderTest):
    def build_folder(self, *missing):
        """A build folder with packages of CMake; of those that are `missing` the build has none."""
        cache = []
        for _, package, _, _ in sbom.COMPILED_IN:
            name = f"{package}ConfigVersion.cmake" if package != "hwy" else "hwy-config-version.cmake"
            self.plant(f"packages/{name}", 'set(PACKAGE_VERSION "1.2.3")\n')
            place = f"{package}_DIR-NOTFOUND" if package in missing else self.root / "packages"
            cache.append(f"{package}_DIR:PATH={place}")
        self.plant("include/openssl/opensslv.h", '# define OPENSSL_VERSION_STR "3.0.1"\n')
        cache.append(f"OPENSSL_INCLUDE_DIR:PATH={self.root / 'include'}")
        self.plant("build/CMakeCache.txt", "\n".join(cache))
        self.plant("build/CMakeFiles/3.25.1/CMakeCXXCompiler.cmake",
                   'set(CMAKE_CXX_COMPILER_ID "GNU")\nset(CMAKE_CXX_COMPILER_VERSION "12.2.0")\n')
        return self.root / "build"

    def versions(self, build):
        done = run(sys.executable, ROOT / "tools/sbom.py", "--build", build, "-o", self.root / "list.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {one["name"]: one["versionInfo"] for one in json.loads(text(self.root / "list.json"))["packages"]}

    def test_it_lists_what_the_build_has_found(self):
        found = self.versions(self.build_folder("CLI11"))
        self.assertIn(f"  VERSION {found.pop('tutti')}\n", text(ROOT / "CMakeLists.txt"))
        self.assertEqual(found, {"fmt": "1.2.3", "highway": "1.2.3", "nlohmann-json": "1.2.3", "nanobind": "1.2.3",
                                 "libstdc++": "12.2.0", "OpenSSL": "3.0.1"})

    def test_it_lists_all_that_the_build_asks_for(self):
        asked = set(re.findall(r"find_package\((\w+)", text(ROOT / "cmake/TuttiDependencies.cmake")))
        tests_only = {"GTest", "Python3", "benchmark", "Threads"}
        self.assertEqual({package for _, package, _, _ in sbom.COMPILED_IN} | {"OpenSSL"}, asked - tests_only | {"nanobind"})

    def test_what_must_be_there_and_is_not_is_an_error(self):
        for build, words in ((self.build_folder("fmt"), "was configured without fmt"), (self.root, "is no build folder")):
            done = run(sys.executable, ROOT / "tools/sbom.py", "--build", pathlib.Path(build))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
