#pragma once

#include <functional>

#include <tutti/config.hpp>
#include <tutti/process_group.hpp>

namespace tutti {

/// Runs `body` as `size` ranks that are threads of this process, over real shared memory: for tests
/// and small jobs. Each gets its own world. Returns when all have ended.
///
/// Errors: the first exception of a rank (by time) is thrown again; the other ranks then end with
///         errors of their own, because the group of a rank that throws is broken.
void run_threads(int size, const std::function<void(ProcessGroup&)>& body,
                 const Config& config = {});

}  // namespace tutti
