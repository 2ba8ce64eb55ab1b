#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/select.hpp"
#include "support/long_tests.hpp"
#include "verify/prover.hpp"

// The cases that schedules are proven for.
namespace tutti::verify {

using plan::Algorithm;
using plan::make_topology;

inline constexpr int kSizes = 33;
inline constexpr std::size_t kChunkBytes =
    4096;  // any but 0: proofs say themselves how long a chunk is

/// TUTTI_LONG_TESTS=1: every combination, which takes long.
[[nodiscard]] inline bool prove_all() { return test::long_tests(); }

[[nodiscard]] inline Topology one_host(int size) {
  return make_topology(std::vector<int>(static_cast<std::size_t>(size), 0));
}

[[nodiscard]] inline Topology all_apart(int size) {
  std::vector<int> host_of;
  for (int r = 0; r < size; ++r) host_of.push_back(r);
  return make_topology(host_of);
}

/// Hosts of `each` consecutive ranks, the last one with what is left.
[[nodiscard]] inline Topology in_blocks(int size, int each) {
  std::vector<int> host_of;
  for (int r = 0; r < size; ++r) host_of.push_back(r / each);
  return make_topology(host_of);
}

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
    cases.push_back({count, chunk, align, false});
    cases.push_back({count, chunk, align, true});
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

}  // namespace tutti::verify
