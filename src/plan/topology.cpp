#include "plan/topology.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/fnv.hpp"
#include "base/index.hpp"

namespace tutti::plan {
namespace {

/// Renumbers hosts in order of their first rank, so that equal groupings look equal.
void renumber(std::vector<int>& host_of) {
  std::vector<std::pair<int, int>> seen;  // old number, new number
  for (int& host : host_of) {
    const auto found = std::find_if(seen.begin(), seen.end(),
                                    [&](const auto& pair) { return pair.first == host; });
    if (found != seen.end()) {
      host = found->second;
    } else {
      seen.emplace_back(host, static_cast<int>(seen.size()));
      host = seen.back().second;
    }
  }
}

/// True if every host but the last has the same power of two of consecutive ranks, and the last no
/// more. Other sizes do not work: with 4, 2 and 2 ranks the sums of the hosts would have to be
/// added as A + (B + C), which no tree over three hosts gives.
bool is_aligned(const std::vector<int>& host_of, const std::vector<int>& sizes) {
  if (!std::is_sorted(host_of.begin(), host_of.end())) return false;
  const auto first = static_cast<unsigned>(sizes.front());
  if (sizes.size() == 1) return true;
  if (!std::has_single_bit(first)) return false;
  for (std::size_t h = 1; h + 1 < sizes.size(); ++h) {
    if (sizes[h] != sizes.front()) return false;
  }
  return sizes.back() <= sizes.front();
}

}  // namespace

Topology make_topology(std::vector<int> host_of) {
  Topology t;
  renumber(host_of);
  t.host_of = std::move(host_of);
  std::vector<int> sizes;
  t.id = base::kFnvBasis;
  for (const int host : t.host_of) {
    if (base::as_size(host) >= sizes.size()) sizes.push_back(0);
    ++base::at(sizes, host);
    t.id = base::fnv_add(t.id, static_cast<std::uint64_t>(host));
  }
  if (sizes.empty()) sizes.push_back(0);
  t.hosts = static_cast<int>(sizes.size());
  t.max_per_host = *std::max_element(sizes.begin(), sizes.end());
  t.aligned = is_aligned(t.host_of, sizes);
  return t;
}

}  // namespace tutti::plan
