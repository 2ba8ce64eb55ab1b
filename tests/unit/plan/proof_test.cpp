#include <gtest/gtest.h>

#include <tutti/kinds.hpp>
#include "proof_cases.hpp"
#include "verify/text.hpp"

// Every algorithm, proven for every size 1..33.
namespace tutti::verify {

using namespace plan;

namespace {

/// Proves one algorithm on one topology for all counts; returns the number of executions.
int prove_on(const Algorithm& a, const Topology& t, int root, std::size_t chunk_bytes) {
  const std::vector<Schedule> all = build_all(a.build, t, root, chunk_bytes);
  int done = 0;
  for (const ProofCase& c : cases_for(a, t.size())) {
    if (a.kind == Kind::barrier && c.count != 1) continue;
    const std::vector<Finding> found = prove(all, c, claims_of(a));
    ++done;
    for (const Finding& f : found) {
      ADD_FAILURE() << name_of(a) << " on " << t.hosts << " hosts, " << text_of(c) << ", root "
                    << root << "\n"
                    << f.text << "\n"
                    << to_text(all[static_cast<std::size_t>(f.rank)]);
      return done;  // the first one tells enough
    }
  }
  return done;
}

std::vector<int> roots_of(const Algorithm& a, int size) {
  if (!traits_of(a.kind).rooted) return {0};
  if (size <= 6 || prove_all()) {
    std::vector<int> all;
    for (int r = 0; r < size; ++r) all.push_back(r);
    return all;
  }
  return {0, size / 2 + 1, size - 1};
}

std::vector<Topology> topologies_of(const Algorithm& a, int size) {
  if (a.one_host) return {one_host(size)};
  const bool two_level = a.name.starts_with("two_level");
  if (!two_level) return {all_apart(size)};  // messages do not look at hosts
  std::vector<Topology> all{one_host(size)};
  for (const int each : {2, 4, 8}) {
    if (each < size) all.push_back(in_blocks(size, each));
  }
  if (size > 3) {  // what is not aligned, and hosts of one rank; in turn where the groups are large
    std::vector<Topology> more{in_blocks(size, 3), dealt_out(size, 2), dealt_out(size, 3),
                               all_apart(size)};
    if (size > 12 && !prove_all()) more = {more[static_cast<std::size_t>(size) % more.size()]};
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

class Proof : public testing::TestWithParam<Algorithm> {};

TEST_P(Proof, HoldsForEverySize) {
  const Algorithm& a = GetParam();
  int done = 0;
  for (int size = 1; size <= kSizes && !HasFailure(); ++size) {
    for (const Topology& t : topologies_of(a, size)) {
      for (const int root : roots_of(a, size)) {
        done += prove_on(a, t, root, kChunkBytes);
        // Without chunks: another form of two_level; of others one chunk.
        if (a.name == "two_level" || size <= 5) done += prove_on(a, t, root, 0);
      }
    }
  }
  RecordProperty("executions", done);
  EXPECT_GT(done, kSizes);
}

TEST_P(Proof, SymmetryIsAsDeclaredUpTo64) {
  const Algorithm& a = GetParam();
  for (int size = 1; size <= 64; ++size) {
    for (const Topology& t : topologies_of(a, size)) {
      const std::vector<Schedule> all = build_all(a.build, t, 0, kChunkBytes);
      const std::vector<Finding> found =
          check_symmetry(all, t,
                         {has_blocks(a.kind) ? std::size_t{3} : std::size_t{3} * 64,
                          has_blocks(a.kind) ? std::size_t{1} : 64, 1, false});
      ASSERT_TRUE(found.empty()) << found.front().text << "\n" << to_text(all.front());
    }
  }
}

TEST_P(Proof, NameAndClassAreThoseOfTheTable) {
  const Algorithm& a = GetParam();
  for (const Schedule& s : build_all(a.build, in_blocks(8, 4), 0, kChunkBytes)) {
    EXPECT_EQ(s.algorithm, a.name);
    EXPECT_EQ(s.kind, a.kind);
    EXPECT_EQ(s.order, a.order);
    EXPECT_EQ(s.size, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Proof, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& a) { return name_of(a.param); });

}  // namespace
}  // namespace tutti::verify
