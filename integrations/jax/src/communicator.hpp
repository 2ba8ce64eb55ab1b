#pragma once

#include <memory>
#include <string>
#include <utility>

#include <tutti/error.hpp>
#include <tutti/process_group.hpp>

namespace tutti::jax {

/// A communicator of jaxlib: a group, or the reason why there is none, with which all its
/// operations fail. jaxlib ignores what MPI_Comm_split returns, so that a failure shows at the
/// first operation.
///
/// Threads: any; jaxlib calls the operations of one communicator one after the other.
class Communicator {
 public:
  explicit Communicator(ProcessGroup group)
      : group_(std::move(group)), rank_(group_.rank()), size_(group_.size()) {}
  /// One that failed. `rank` and `size` are still those that jaxlib works with: with others its
  /// loops over the ranks might copy a rank's own data and never call an operation that fails.
  Communicator(std::string problem, int rank, int size)
      : problem_(std::move(problem)), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Throws BackendError with the reason if there is no group.
  [[nodiscard]] ProcessGroup& group() {
    if (!group_) raise(Outcome(Errc::unsupported, problem_));
    return group_;
  }
  /// Fails all running and later operations, here and on the other members.
  void abort(const std::string& why) {
    if (group_) group_.abort(why);
  }

 private:
  ProcessGroup group_;
  std::string problem_;
  int rank_;
  int size_;
};

using SharedCommunicator = std::shared_ptr<Communicator>;

}  // namespace tutti::jax
