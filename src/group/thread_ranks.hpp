#pragma once

#include <functional>

#include <tutti/config.hpp>
#include <tutti/process_group.hpp>

namespace tutti::group {

/// As run_threads, with a config for each rank: different host ids, for instance, make ranks behave
/// as if on several hosts. `config_of` is called before any thread starts.
void run_thread_ranks(int size, const std::function<void(ProcessGroup&)>& body,
                      const std::function<Config(int rank)>& config_of);

}  // namespace tutti::group
