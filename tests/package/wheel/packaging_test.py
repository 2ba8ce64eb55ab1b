"""What leaves the project beside wheels is in order: the list of what a wheel is made of, and the recipe of conda-forge."""

import hashlib
import pathlib
import sys

import rattler_build
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

import stacks

LIMIT = 60  # seconds
ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_list_of_a_wheels_parts_is_valid_spdx(tmp_path):
    # As pip names the folder in which it has built the wheel; later Pythons share one.
    build, = ROOT.glob(f"build/cp3{min(sys.version_info[1], 12)}-*/")
    stacks.said(ROOT / "tools/sbom.py", "--build", build, "-o", tmp_path / "tutti.spdx.json", limit=LIMIT)
    document = parse_file(str(tmp_path / "tutti.spdx.json"))
    assert validate_full_spdx_document(document) == []
    assert {"tutti", "fmt", "highway", "nlohmann-json", "CLI11", "nanobind", "OpenSSL"} <= {one.name for one in document.packages}


def test_rattler_build_renders_the_recipe(tmp_path):
    archive = tmp_path / "tutti.tar.gz"
    archive.write_bytes(b"sources")
    stacks.said(ROOT / "packaging/fill.py", "--archive", archive, tmp_path, "conda-forge", limit=LIMIT)
    recipe = rattler_build.Stage0Recipe.from_yaml((tmp_path / "conda-forge/recipe.yaml").read_text(encoding="utf-8"))
    made, = recipe.render(rattler_build.VariantConfig({"python": ["3.12.* *_cp312"], "c_stdlib": ["sysroot"]}))
    assert (made.recipe.package.name, made.recipe.to_dict()["source"][0]["sha256"]) == ("tutti", hashlib.sha256(b"sources").hexdigest())
