#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/fnv.hpp"
#include "base/forks.hpp"
#include "base/format.hpp"
#include "store/credentials.hpp"

namespace tutti::rendezvous {

/// Counts the groups of this process per store, job name and rank (ranks may be threads).
class Generations {
 public:
  static Generations& of_process() {
    static auto* const instance = new Generations;  // never destroyed: groups may be made at exit
    return *instance;
  }
  std::uint64_t next(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return counts_[key] + 1;
  }
  void made(const std::string& key, std::uint64_t generation) {
    const std::lock_guard lock(mutex_);
    counts_[key] = generation;
  }
  /// Of a store that rank 0 serves under a job name. These have no order: a rank that comes too
  /// early to the next one must not be taken for late.
  static std::uint32_t of_job_name(const std::string& job_name, std::uint64_t generation) {
    const std::uint64_t hash = base::fnv_of(base::format("{} {}", generation, job_name));
    return store::kUnorderedGeneration | static_cast<std::uint32_t>(hash ^ (hash >> 32));
  }

 private:
  base::ForkMutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace tutti::rendezvous
