#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tutti/error.hpp>
#include <tutti/process_group.hpp>
#include <tutti/tensor.hpp>

namespace tutti::python {

class RunningWork;

/// A message of isend, of which the end of the process tells if it was not received until then.
///
/// Threads: used with the GIL.
class SentMessage {
 public:
  SentMessage(const ProcessGroup& group, const TensorView& view, int dst, int tag);
  SentMessage(const SentMessage&) = delete;
  SentMessage& operator=(const SentMessage&) = delete;
  ~SentMessage();

  /// The Work that the program holds, which is polled at the end; null: it has dropped it.
  void set_work(RunningWork* work) noexcept { work_ = work; }
  void set_failure(const Outcome& outcome) { failure_ = outcome.message(); }
  /// The program knows of the failure.
  void note_told() noexcept;

  /// At exit: waits a moment for messages under way, and writes of the others to standard error.
  static void tell_at_exit() noexcept;

 private:
  [[nodiscard]] std::string text() const;

  std::string group_;
  DType dtype_;
  std::size_t count_;
  int rank_, dst_, tag_;
  std::uint64_t number_ = 0;
  RunningWork* work_ = nullptr;
  std::string failure_;
};

}  // namespace tutti::python
