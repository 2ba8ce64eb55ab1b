#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/error.hpp>

namespace tutti::gpu {

struct GpuScope;
struct GpuOperation;

/// Where an operation stands after a step of its path.
struct Step {
  enum class To : std::uint8_t {
    again,   ///< the next step may go on at once
    waits,   ///< for a stream, or for operations before it; the group checks the deadline
    runs,    ///< the host backend, NCCL or the last copies; the group checks no deadline
    passes,  ///< this path does not take the call: the router chooses another one
    ends,    ///< with `outcome`
    breaks,  ///< with `outcome`, which breaks the group
  };
  To to;
  Outcome outcome = {};
};

/// The way of the elements of one call from the memory of some ranks to that of others.
///
/// Threads: one at a time, under GpuSet::mutex.
class Path {
 public:
  Path() = default;
  virtual ~Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  /// Starts the input. The default only records an event on the caller's stream. `passed`: that
  /// stream has reached the call, so any work goes to the GPU's own stream.
  [[nodiscard]] virtual Step start(GpuOperation& op, GpuScope& on, bool passed);
  /// Goes on as far as it can without waiting. Not called while the result goes to the GPU.
  [[nodiscard]] virtual Step step(GpuOperation& op) = 0;
  /// The operation ends now with an error. Orders the caller's stream behind the work that the GPU
  /// still has, so that the caller may free its tensors.
  virtual void cancel(GpuOperation& op) noexcept;

  /// For the error of a timeout: why the operation still waits.
  [[nodiscard]] virtual std::string_view waits_for(const GpuOperation& op) const noexcept;
  /// True if its parts need the thread that waits soon again.
  [[nodiscard]] virtual bool in_parts() const noexcept { return true; }
  /// True if it fills slots that other ranks read, up to its last rendezvous.
  [[nodiscard]] virtual bool uses_slots() const noexcept { return false; }
};

}  // namespace tutti::gpu
