#pragma once

#include <functional>

#include <tutti/config.hpp>
#include <tutti/process_group.hpp>

namespace tutti::group {

/// run_threads with a config for each rank: ranks of unlike host ids, for instance, are as if they
/// were on several hosts. `config_of` is called before there are threads.
void run_thread_ranks(int size, const std::function<void(ProcessGroup&)>& body,
                      const std::function<Config(int rank)>& config_of);

}  // namespace tutti::group
