#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tutti/process_group.hpp>

namespace tutti::lightgbm {

/// LightGBM's way to add: `into` becomes into + from. Both have `bytes` bytes, elements of
/// `type_size`.
using Reduce = void (*)(const char* from, char* into, int type_size, std::int32_t bytes);

/// The ranks that train one model, for LightGBM's calls in one thread.
///
/// Threads: one, but for `close`.
/// Errors:  calls throw what the group throws; LightGBM makes a LightGBMError of it.
class Network {
 public:
  /// The group must have no other use.
  explicit Network(ProcessGroup group) : group_(std::move(group)) {}

  [[nodiscard]] int size() const { return group_.size(); }

  /// Every rank's block goes to its place in `output`: block r has `lengths[r]` bytes and begins at
  /// `starts[r]`. `input` may lie in `output`.
  void all_gather(const char* input, std::span<const std::int32_t> starts,
                  std::span<const std::int32_t> lengths, char* output);
  /// The sum of all ranks' blocks for this rank goes to the front of `output`. `input` has a block
  /// for each rank, of `bytes` bytes together, and may be written to. Added in the order of
  /// LightGBM's own sockets (order_of_additions.hpp).
  void reduce_scatter(char* input, std::int32_t bytes, int type_size,
                      std::span<const std::int32_t> starts, std::span<const std::int32_t> lengths,
                      char* output, Reduce reduce);

  /// The exception of a signal handler that has ended a call, once. Needs the GIL.
  [[nodiscard]] std::optional<nanobind::python_error> take_raised();

 private:
  void wait(Work work);

  ProcessGroup group_;
  std::vector<char> received_;  // kept for the next call
  std::optional<nanobind::python_error> raised_;
};

}  // namespace tutti::lightgbm
