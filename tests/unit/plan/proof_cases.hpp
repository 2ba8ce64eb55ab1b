#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include "plan/select.hpp"
#include "support/long_tests.hpp"
#include "verify/prover.hpp"
#include "verify/text.hpp"

// The cases that schedules are proven for.
namespace tutti::verify {

using plan::Algorithm;
using plan::make_topology;

inline constexpr int kSizes = 33;
inline constexpr std::size_t kChunkBytes =
    4096;  // any but 0: proofs say themselves how long a chunk is

/// TUTTI_LONG_TESTS=1: every combination, which takes long.
[[nodiscard]] inline bool prove_all() { return test::long_tests(); }

/// Hosts of `each` consecutive ranks, the last one with what is left.
[[nodiscard]] inline Topology in_blocks(int size, int each) {
  std::vector<int> host_of;
  for (int r = 0; r < size; ++r) host_of.push_back(r / each);
  return make_topology(host_of);
}
[[nodiscard]] inline Topology one_host(int size) { return in_blocks(size, size); }
[[nodiscard]] inline Topology all_apart(int size) { return in_blocks(size, 1); }

/// Ranks dealt out to `hosts` hosts like cards.
[[nodiscard]] inline Topology dealt_out(int size, int hosts) {
  std::vector<int> host_of;
  for (int r = 0; r < size; ++r) host_of.push_back(r % hosts);
  return make_topology(host_of);
}

/// Counts and chunks: nothing, one element, few, one chunk, several chunks that do not divide
/// evenly, as many as make every slot be used three times.
[[nodiscard]] inline std::vector<ProofCase> cases_of_one_run(int size) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<ProofCase> cases;
  const auto add = [&](std::size_t count, std::size_t chunk, std::size_t align) {
    for (const bool in_place : {false, true}) cases.push_back({count, chunk, align, in_place});
  };
  add(0, 4, 1);
  add(1, 4, 1);
  add(2, 4, 2);
  add(7, 4, 1);
  add(2 * n + 1, 2 * n + 1, 1);  // one chunk in which everybody has a part
  add(3 * n + 2, n + 1, 2);      // some parts are shorter or empty
  add((size <= 8 || prove_all() ? 13 : 7) * n + 3, n, 1);
  if (size <= 9 || prove_all()) {
    add(40 * n + 7, 3, 1);  // chunks of parts: many rounds
    add(12, 1, 1);
  }
  return cases;
}

/// Operations of blocks: the same for blocks, all alike and not.
[[nodiscard]] inline std::vector<ProofCase> cases_of_blocks(const Algorithm& a, int size) {
  std::vector<ProofCase> cases;
  const bool exchange = a.kind == Kind::all_to_all;
  const auto add = [&](std::size_t count, std::size_t chunk, std::size_t align,
                       std::uint32_t uneven) {
    if (uneven != 0 && ((exchange && !a.any_splits) || a.even_blocks)) return;
    cases.push_back({count, chunk, align, false, uneven});
    if (!exchange) cases.push_back({count, chunk, align, true, uneven});
  };
  const auto seed = static_cast<std::uint32_t>(size);
  add(0, 4, 1, 0);
  add(1, 4, 2, 0);
  add(1, 1, 1, seed);
  add(3, 2, 1, seed + 100);
  if (size <= 20 || prove_all()) add(5, 2, 1, 0);
  if (size <= 8 || prove_all()) {
    add(13, 1, 1, 0);  // every slot is used three times
    add(10, 3, 2, seed + 200);
    add(12, 1, 1, seed + 300);
  }
  for (std::uint32_t more = 1; prove_all() && more <= 10; ++more) add(7, 1, 1, seed + 1000 * more);
  return cases;
}

[[nodiscard]] inline std::vector<ProofCase> cases_for(const Algorithm& a, int size) {
  return has_blocks(a.kind) ? cases_of_blocks(a, size) : cases_of_one_run(size);
}

[[nodiscard]] inline Claims claims_of(const Algorithm& a) { return {a.single_pass, a.any_splits}; }

/// As name of a test.
[[nodiscard]] inline std::string name_of(const Algorithm& a) {
  return std::string(to_string(a.kind)) + "_" + std::string(a.name);
}

[[nodiscard]] inline std::string text_of(const ProofCase& c) {
  return "count " + std::to_string(c.count) + ", chunk " + std::to_string(c.chunk) + ", align " +
         std::to_string(c.align) + (c.in_place ? ", in place" : "") +
         (c.uneven != 0 ? ", uneven " + std::to_string(c.uneven) : "");
}

/// Proves one algorithm on one topology for all counts; returns the number of executions.
inline int prove_on(const Algorithm& a, const Topology& t, int root, std::size_t chunk_bytes) {
  const std::vector<plan::Schedule> all = build_all(a.build, t, root, chunk_bytes);
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

[[nodiscard]] inline std::vector<int> roots_of(const Algorithm& a, int size) {
  if (!traits_of(a.kind).rooted) return {0};
  if (size <= 6 || prove_all()) return all_apart(size).host_of;  // 0, 1, ...
  return {0, size / 2 + 1, size - 1};
}

[[nodiscard]] inline std::vector<Topology> topologies_of(const Algorithm& a, int size) {
  if (a.one_host) return {one_host(size)};
  if (!a.looks_at_hosts) return {all_apart(size)};
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

/// Proves one algorithm for all topologies and roots of a size; returns the number of executions.
inline int prove_size(const Algorithm& a, int size) {
  int done = 0;
  for (const Topology& t : topologies_of(a, size)) {
    for (const int root : roots_of(a, size)) {
      done += prove_on(a, t, root, kChunkBytes);
      // Without chunks two_level has another form, and others one chunk.
      if (a.looks_at_hosts || size <= 5) done += prove_on(a, t, root, 0);
    }
  }
  return done;
}

inline void prove_every_size(const Algorithm& a) {
  int done = 0;
  for (int size = 1; size <= kSizes && !testing::Test::HasFailure(); ++size)
    done += prove_size(a, size);
  EXPECT_GT(done, kSizes);
}

/// The algorithms that look at hosts, whose proofs take half of the time, or the others.
[[nodiscard]] inline std::vector<Algorithm> algorithms_of_levels(bool two) {
  std::vector<Algorithm> found;
  for (const Algorithm& a : plan::algorithms())
    if (a.looks_at_hosts == two) found.push_back(a);
  return found;
}

}  // namespace tutti::verify
