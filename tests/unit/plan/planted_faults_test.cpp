#include <string>
#include <utility>

#include "planted_block_faults.hpp"
#include "planted_step_faults.hpp"

namespace tutti::verify::planted {
namespace {

std::vector<Planted> all_faults() {
  std::vector<Planted> all = step_faults();
  for (Planted& p : block_faults()) all.push_back(std::move(p));
  return all;
}

std::vector<Finding> look(const All& all, const ProofCase& c, const Claims& claims) {
  std::vector<Finding> found = prove(all, c, claims);
  const std::vector<Finding> more = check_symmetry(all, one_host(kRanks), c);
  if (found.empty()) found = more;
  return found;
}

class PlantedFault : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(all_faults()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(PlantedFault, IsReportedAsWhatItIs) {
  const Planted& p = GetParam();
  All all = build_all(p.build, one_host(kRanks), 0, kChunkBytes);
  const std::vector<Finding> before = look(all, p.c, p.claims);
  ASSERT_TRUE(before.empty()) << before.front().text;
  p.plant(all);
  const std::vector<Finding> found = look(all, p.c, p.claims);
  std::string text;
  bool told = false;
  for (const Finding& f : found) {
    text += f.text + "\n";
    told |= f.kind == p.told.fault;
    EXPECT_TRUE(f.kind == p.told.fault || p.told.follows.count(f.kind) > 0) << f.text;
    EXPECT_TRUE(f.text.starts_with(to_string(f.kind))) << f.text;
  }
  EXPECT_TRUE(told) << "found: " << text;
}

TEST(PlantedFaults, CoverEveryKind) {
  std::set<Fault> planted;
  const std::vector<Planted> all = all_faults();
  for (const Planted& p : all) planted.insert(p.told.fault);
  for (int kind = 0; to_string(static_cast<Fault>(kind)) != "?"; ++kind)
    EXPECT_EQ(planted.count(static_cast<Fault>(kind)), 1U) << to_string(static_cast<Fault>(kind));
  EXPECT_GE(all.size(), 25U);
}

}  // namespace
}  // namespace tutti::verify::planted
