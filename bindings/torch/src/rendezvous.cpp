#include "rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <tutti/backend/group_access.hpp>
#include <tutti/init.hpp>

#include "failures.hpp"
#include "views.hpp"

namespace tutti::torch_plugin {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Tells every rank the texts of all by torch's store.
class Exchange {
 public:
  Exchange(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout)
      : store_(std::move(store)),
        rank_(rank),
        size_(size),
        timeout_(timeout),
        deadline_(Clock::now() + timeout) {
    if (size == 1) return;
    // A store may outlive its group. Each rank counts its own turns, so the keys of one are new.
    const std::string turns = "tutti/turns/" + std::to_string(rank);
    prefix_ = "tutti/" + std::to_string(store_->add(turns, 1)) + "/";
  }

  std::vector<std::string> run(const std::string& name, const std::string& mine) {
    // torch's store may end while a rank makes a group of its own: the rank that serves it may be
    // done.
    if (size_ == 1) return {mine};
    std::vector<std::string> keys;
    for (int r = 0; r < size_; ++r) keys.push_back(prefix_ + name + "/" + std::to_string(r));
    store_->set(keys[static_cast<std::size_t>(rank_)],
                std::vector<std::uint8_t>(mine.begin(), mine.end()));
    try {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
      store_->wait(keys, std::max(left, milliseconds(1)));
    } catch (const std::exception&) {
      const std::string missing = missing_of(keys);
      if (missing.empty()) throw;
      throw Error(Outcome(Errc::timeout, missing + " did not come to the group within " +
                                             std::to_string(timeout_.count()) +
                                             " ms; see whether all ranks were started, and what "
                                             "the missing ones wait for"));
    }
    std::vector<std::string> texts;
    for (const std::vector<std::uint8_t>& text : store_->multiGet(keys))
      texts.emplace_back(text.begin(), text.end());
    return texts;
  }

 private:
  std::string missing_of(const std::vector<std::string>& keys) {
    std::string ranks;
    for (int r = 0; r < size_; ++r) {
      if (store_->check({keys[static_cast<std::size_t>(r)]})) continue;
      ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(r);
    }
    return ranks;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  milliseconds timeout_;
  Clock::time_point deadline_;
  std::string prefix_;
};

/// Where the store is served: over that way the ranks reach each other, too. Absent for stores that
/// are files or memory.
std::optional<std::string> host_of(const c10::intrusive_ptr<c10d::Store>& store) {
  c10::intrusive_ptr<c10d::Store> inner = store;
  if (auto* const prefix = dynamic_cast<c10d::PrefixStore*>(inner.get()))
    inner = prefix->getUnderlyingNonPrefixStore();
  const auto* const tcp = dynamic_cast<const c10d::TCPStore*>(inner.get());
  if (tcp == nullptr || tcp->getHost().empty()) return std::nullopt;
  return tcp->getHost();
}

}  // namespace

ProcessGroup meet(const c10d::DistributedBackendOptions& given, const std::string& backend) {
  const auto timeout = bounded(std::chrono::duration_cast<milliseconds>(given.timeout));
  TORCH_CHECK_VALUE(timeout > milliseconds(0), "tutti: the timeout must be positive");
  Exchange exchange(given.store, given.group_rank, given.group_size, timeout);
  InitOptions options;
  options.rank = given.group_rank;
  options.size = given.group_size;
  options.timeout = timeout;
  options.master_addr = host_of(given.store);
  const bool world = given.global_ranks_in_group.empty();
  options.name = world || given.group_id.empty() ? "world" : given.group_id;
  options.backend = backend;
  if (backend == "mpi" && !world) {  // torch numbers the ranks as MPI_COMM_WORLD does
    options.backend_options =
        std::vector<int>(given.global_ranks_in_group.begin(), given.global_ranks_in_group.end());
  }
  options.exchange = [&](const std::string& name,
                         const std::string& mine) -> Result<std::vector<std::string>> {
    try {
      return exchange.run(name, mine);
    } catch (const Error& problem) {
      return problem.status();
    } catch (const std::exception& problem) {
      return Outcome(Errc::store,
                     std::string("torch's store failed while the ranks met: ") + problem.what());
    }
  };
  options.exchange_is_private = false;  // anybody can write to torch's store
  return with_torchs_exceptions([&] {
    ProcessGroup group = init_process_group(options);
    GroupAccess::check_objects(group, "tutti.torch: torch's object operations");
    return group;
  });
}

}  // namespace tutti::torch_plugin
