#include "backend/native/job_text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <tutti/version.hpp>

#include "base/format.hpp"

namespace tutti::native {
namespace {

constexpr std::size_t kMostHosts = 8;
constexpr std::size_t kMostRuns = 16;

std::string many(std::size_t count, const char* what) {
  return base::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const std::string& host : hosts) {
    const auto known = std::ranges::find(counts, host, &std::pair<std::string, std::size_t>::first);
    if (known == counts.end())
      counts.emplace_back(host, 1);
    else
      ++known->second;
  }
  std::string text = many(hosts.size(), "rank") + " on " + many(counts.size(), "host") + " (";
  for (std::size_t i = 0; i < counts.size() && i < kMostHosts; ++i)
    text += base::format("{}{}: {}", i == 0 ? "" : ", ", counts[i].first, counts[i].second);
  return text + (counts.size() > kMostHosts ? ", ...)" : ")");
}

std::string transports_text(const JobFacts& facts) {
  const bool memory = facts.ranks_here > 1;
  if (facts.address.empty()) return memory ? "shared memory" : "no transport";
  std::string text = memory ? "shared memory within a host, TCP between hosts" : "TCP";
  text += " (rank 0 at " + facts.address;
  if (!facts.interface.empty()) text += " on " + facts.interface;
  return text + (facts.encrypted ? ", TLS 1.3)" : ", not encrypted)");
}

}  // namespace

std::string job_text(const JobFacts& facts) {
  return base::format("tutti {}: {}; {}; {} a host; algorithms: {}", version(),
                      hosts_text(facts.hosts), transports_text(facts),
                      many(static_cast<std::size_t>(facts.cpus), "CPU"), facts.selection);
}

std::string ranks_text(std::span<const int> ranks) {
  std::string text;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (runs++ == kMostRuns) return text + ", ...";
    text += base::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) text += base::format("-{}", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string peers_text(const engine::World& world) {
  std::vector<int> near;
  std::vector<int> far;
  for (int rank = 0; rank < world.size; ++rank) {
    if (rank == world.rank) continue;
    (world.local_of[static_cast<std::size_t>(rank)] >= 0 ? near : far).push_back(rank);
  }
  std::string text = base::format("rank {}: ", world.rank);
  if (near.empty() && far.empty()) return text + "alone";
  if (!near.empty()) text += "shared memory with ranks " + ranks_text(near);
  if (!far.empty()) text += (near.empty() ? "" : "; ") + ("TCP with ranks " + ranks_text(far));
  return text;
}

}  // namespace tutti::native
