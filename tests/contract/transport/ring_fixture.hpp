#pragma once

#include "contract/transport/ranks.hpp"
#include "os/shared_memory.hpp"
#include "transport/shm/host.hpp"
#include "transport/shm/ring_transport.hpp"

namespace tutti::transport::test {

/// Ranks of this process over real mappings, joined as those of a job are.
struct RingFixture : Fixture {
  explicit RingFixture(int ranks) {
    std::vector<int> numbers;
    std::vector<shm::HostAddress> addresses;
    for (int rank = 0; rank < ranks; ++rank) {
      hosts.push_back(shm::Host::prepare(rank, "").value());
      addresses.push_back(hosts.back()->worker_address());
      numbers.push_back(rank);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::vector<Outcome> joined(hosts.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { joined[rank] = hosts[rank]->join(numbers, addresses, {}, deadline); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Outcome& one : joined) raise_if(one);
    for (auto& host : hosts) {
      all.push_back(
          shm::RingTransport::make({&host->regions(), ranks, os::populate, true}).value());
    }
  }
  [[nodiscard]] int size() const override { return static_cast<int>(all.size()); }
  shm::RingTransport& at(int rank) override { return *all[static_cast<std::size_t>(rank)]; }
  /// Its memory stays, as it does while others map it.
  void kill(int rank) override { all[static_cast<std::size_t>(rank)].reset(); }
  Regions& regions(int rank) { return hosts[static_cast<std::size_t>(rank)]->regions(); }

  std::vector<std::unique_ptr<shm::Host>> hosts;
  std::vector<std::unique_ptr<shm::RingTransport>> all;
};

struct RingRanks : Ranks {
  explicit RingRanks(int count) : RingRanks(std::make_unique<RingFixture>(count)) {}
  Regions& regions(int rank) { return fixture_->regions(rank); }
  std::atomic<std::uint32_t>& park(int rank) { return regions(rank).control().words().park; }

 private:
  explicit RingRanks(std::unique_ptr<RingFixture> fixture)
      : Ranks(std::move(fixture)), fixture_(static_cast<RingFixture*>(&this->fixture())) {}
  RingFixture* fixture_;
};

}  // namespace tutti::transport::test
