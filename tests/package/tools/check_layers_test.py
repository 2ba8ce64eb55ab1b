import shutil

from planted import ROOT, PlantedTree

OS_ROW = 'os = { level = 1, may = ["base"] }'
ROWS = {
    "includes down the house are allowed": ({
        "src/os/a.cpp": '#include "base/b.hpp"\n#include <tutti/error.hpp>\n',
        "src/os/c.hpp": '#include <unistd.h>\n#include "os/d.hpp"\n',
        "tests/unit/os/a_test.cpp": '#include "engine/e.hpp"\n#include <gtest/gtest.h>\n',
        "apps/tuttirun/l.cpp": '#include "store/s.hpp"\n#include <tutti/tutti.hpp>\n'}, None),
    "a program includes another one below it": ({"apps/tutti/a.cpp": '#include "apps/tuttirun/b.hpp"\n'}, None),
    "and not the other way round": ({"apps/tuttirun/a.cpp": '#include "apps/tutti/b.hpp"\n'},
                                    "apps/tuttirun may not include apps/tutti"),
    "an upward include": ({"src/base/a.cpp": '\n#include "os/b.hpp"\n'}, "src/base/a.cpp:2: base may not include os"),
    "a sideways include": ({"src/plan/a.cpp": '#include "kernels/b.hpp"\n'}, "plan may not include kernels"),
    "transport may see secure": ({"src/transport/a.cpp": '#include "secure/b.hpp"\n'}, None),
    "secure may not see transport": ({"src/secure/a.cpp": '#include "transport/b.hpp"\n'}, "secure may not include transport"),
    "pure rooms do no I/O": ({"src/plan/a.cpp": "#include <sys/socket.h>\n"}, "plan is pure"),
    "the facade is for the group": ({"src/group/a.cpp": "#include <tutti/process_group.hpp>\n"}, None),
    "and users": ({"src/engine/a.cpp": "#include <tutti/process_group.hpp>\n"}, "engine may not include the facade"),
    "the vocabulary does not know the facade": ({"include/tutti/work.hpp": "#include <tutti/init.hpp>\n"},
                                                "vocabulary may not include"),
    "users see public headers only": ({"examples/01/a.cpp": '#include "base/log.hpp"\n'}, "examples may not include base"),
    "a public header shows no insides": ({"include/tutti/work.hpp": '#include "engine/e.hpp"\n'},
                                         "a public header may not include"),
    "an unknown public header": ({"src/os/a.cpp": "#include <tutti/newcomer.hpp>\n"}, "stands in no list"),
    "a folder without a row": ({"src/attic/a.cpp": "\n"}, "is no module"),
    "foreign headers stay where they belong": ({"src/transport/a.cpp": "#include <openssl/evp.h>\n"},
                                               "belongs to src/secure only"),
}


class CheckLayers(PlantedTree):
    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / "ARCHITECTURE.md", self.root)

    def test_includes(self):
        self.assert_rows("check_layers", ROWS)

    def test_table_that_points_upwards_or_sideways_is_a_fault(self):
        for other in ("group", "plan"):
            self.setUp()
            self.replace("tools/layers.toml", OS_ROW, OS_ROW.replace('"base"', f'"base", "{other}"'))
            self.assert_fault("check_layers", f"os may include {other}, which is not below it")

    def test_page_with_another_level_is_a_fault(self):
        self.replace("ARCHITECTURE.md", "| `src/secure` | 2 |", "| `src/secure` | 3 |")
        self.assert_fault("check_layers", "src/secure has level 3, tools/layers.toml says 2")
        self.replace("ARCHITECTURE.md", "| `src/secure` | 3 |", "| `src/attic` | 2 |")
        self.assert_fault("check_layers", "src/secure has level none, tools/layers.toml says 2")
        self.assert_fault("check_layers", "src/attic has level 2, tools/layers.toml says none")
