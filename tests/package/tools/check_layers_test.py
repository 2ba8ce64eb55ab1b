import shutil
import unittest

from planted import ROOT, PlantedTree


class CheckLayers(PlantedTree):
    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / "ARCHITECTURE.md", self.root)

    def test_includes_down_the_house_are_allowed(self):
        self.plant("src/os/a.cpp", '#include "base/b.hpp"\n#include <tutti/error.hpp>\n')
        self.plant("src/os/c.hpp", '#include <unistd.h>\n#include "os/d.hpp"\n')
        self.plant("tests/unit/os/a_test.cpp", '#include "engine/e.hpp"\n#include <gtest/gtest.h>\n')
        self.plant("launcher/l.cpp", '#include "store/s.hpp"\n#include <tutti/tutti.hpp>\n')
        self.assert_clean("check_layers")

    def test_upward_include_is_a_fault(self):
        self.plant("src/base/a.cpp", '\n#include "os/b.hpp"\n')
        self.assert_fault("check_layers", "src/base/a.cpp:2: base may not include os")

    def test_sideways_include_is_a_fault(self):
        self.plant("src/plan/a.cpp", '#include "kernels/b.hpp"\n')
        self.assert_fault("check_layers", "plan may not include kernels")

    def test_transport_may_see_secure_but_not_the_other_way_round(self):
        self.plant("src/transport/a.cpp", '#include "secure/b.hpp"\n')
        self.assert_clean("check_layers")
        self.plant("src/secure/a.cpp", '#include "transport/b.hpp"\n')
        self.assert_fault("check_layers", "secure may not include transport")

    def test_pure_rooms_do_no_io(self):
        self.plant("src/plan/a.cpp", "#include <sys/socket.h>\n")
        self.assert_fault("check_layers", "plan is pure")

    def test_facade_is_for_group_and_users(self):
        self.plant("src/group/a.cpp", "#include <tutti/process_group.hpp>\n")
        self.assert_clean("check_layers")
        self.plant("src/engine/a.cpp", "#include <tutti/process_group.hpp>\n")
        self.assert_fault("check_layers", "engine may not include the facade")

    def test_vocabulary_does_not_know_the_facade(self):
        self.plant("include/tutti/work.hpp", "#include <tutti/init.hpp>\n")
        self.assert_fault("check_layers", "vocabulary may not include")

    def test_users_see_public_headers_only(self):
        self.plant("examples/01/a.cpp", '#include "base/log.hpp"\n')
        self.assert_fault("check_layers", "examples may not include base")

    def test_a_public_header_shows_no_insides(self):
        self.plant("include/tutti/work.hpp", '#include "engine/e.hpp"\n')
        self.assert_fault("check_layers", "a public header may not include")

    def test_unknown_public_header_is_a_fault(self):
        self.plant("src/os/a.cpp", "#include <tutti/newcomer.hpp>\n")
        self.assert_fault("check_layers", "stands in no list")

    def test_folder_without_a_row_is_a_fault(self):
        self.plant("src/attic/a.cpp", "\n")
        self.assert_fault("check_layers", "is no module")

    def test_foreign_headers_stay_where_they_belong(self):
        self.plant("src/transport/a.cpp", "#include <openssl/evp.h>\n")
        self.assert_fault("check_layers", "belongs to src/secure only")

    def test_table_that_points_upwards_is_a_fault(self):
        path = self.root / "tools" / "layers.toml"
        path.write_text(path.read_text().replace('os = { level = 1, may = ["base"] }',
                                                 'os = { level = 1, may = ["base", "group"] }'))
        self.assert_fault("check_layers", "os may include group, which is not below it")

    def test_table_that_points_sideways_is_a_fault(self):
        path = self.root / "tools" / "layers.toml"
        path.write_text(path.read_text().replace('os = { level = 1, may = ["base"] }',
                                                 'os = { level = 1, may = ["base", "plan"] }'))
        self.assert_fault("check_layers", "os may include plan, which is not below it")

    def test_page_with_another_level_is_a_fault(self):
        path = self.root / "ARCHITECTURE.md"
        page = path.read_text()
        path.write_text(page.replace("| `src/secure` | 2 |", "| `src/secure` | 3 |"))
        self.assert_fault("check_layers", "src/secure has level 3, tools/layers.toml says 2")
        path.write_text(page.replace("| `src/secure` | 2 |", "| `src/attic` | 2 |"))
        self.assert_fault("check_layers", "src/secure has level none, tools/layers.toml says 2")
        self.assert_fault("check_layers", "src/attic has level 2, tools/layers.toml says none")


if __name__ == "__main__":
    unittest.main()
