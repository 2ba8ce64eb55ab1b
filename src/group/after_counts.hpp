#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <string_view>

#include <tutti/process_group.hpp>

#include "base/format.hpp"

// Operations in two parts, of which the first one tells the sizes of the second.
namespace tutti::group {

/// The time that is left of `limit` for what follows, at least a millisecond.
inline std::chrono::nanoseconds left_of(std::chrono::nanoseconds limit,
                                        std::chrono::steady_clock::time_point begin) noexcept {
  return std::max<std::chrono::nanoseconds>(limit - (std::chrono::steady_clock::now() - begin),
                                            std::chrono::milliseconds(1));
}

/// Runs the second part. The other ranks have begun it, so an exception ends it for them, too.
template <class Start>
auto go_on(ProcessGroup& group, std::string_view name, const Start& start) {
  try {
    return start();
  } catch (const std::exception& error) {
    group.abort(base::format("{} on rank {}: {}", name, group.rank(), error.what()));
    throw;
  } catch (...) {
    group.abort(base::format("{} on rank {}: an exception of another type", name, group.rank()));
    throw;
  }
}

/// Throws if the options of such a call have counts.
inline void refuse_counts(const ProcessGroup& group, std::string_view name,
                          std::span<const std::size_t> counts) {
  if (counts.empty()) return;
  raise(Outcome(Errc::invalid_argument,
                base::format("{} in group '{}': it learns the counts, so the options have none",
                             name, group.name())));
}

}  // namespace tutti::group
