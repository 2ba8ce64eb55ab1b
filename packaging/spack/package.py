# Not built: nobody has built this package yet. packaging/fill.py fills in version and hash.
# Spack asks for a notice with its own licence in this place when the file is sent to it.

from spack.package import *


class Tutti(CMakePackage):
    """Collective communication on shared memory and TCP for C++20 and C."""

    url = "https://pypi.org/packages/source/t/tutti/tutti-0.0.0.tar.gz"

    license("BSD-3-Clause")

    version("@VERSION@", sha256="@SHA256@")

    variant("shared", default=True, description="Build a shared library")
    variant("tools", default=True, description="Build the programs tuttirun and tutti")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("fmt@9.1:", type="build")
    depends_on("highway@1.0.3:", type="build")
    depends_on("nlohmann-json@3.11.2:", type="build")
    depends_on("cli11@2.1.2:", type="build", when="+tools")
    # Loaded at the first TCP connection.
    depends_on("openssl@3:", type=("build", "run"))

    conflicts("platform=darwin", msg="tutti needs Linux")
    conflicts("platform=windows", msg="tutti needs Linux")
    conflicts("%gcc@:11", msg="tutti needs the C++20 of GCC 12")

    def cmake_args(self):
        return [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("TUTTI_TOOLS", "tools"),
            self.define("TUTTI_TESTS", False),
            self.define("TUTTI_BENCH", False),
            self.define("TUTTI_EXAMPLES", False),
            self.define("TUTTI_CUDA_KERNELS", False),
            self.define("TUTTI_UNITY", True),
        ]
