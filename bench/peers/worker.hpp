#pragma once

#include <cstddef>
#include <string>

#include "bench/operations.hpp"

/// The part of a measured process that is the same for all libraries.
namespace tutti::bench {

/// The tensors of a call; see `input_blocks` for how many blocks there are.
struct Buffers {
  float* input = nullptr;
  float* output = nullptr;
  std::size_t count = 0;  ///< elements of a block
};

/// A library that is measured, as one of its ranks sees it. All calls block until done.
class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Name and version.
  [[nodiscard]] virtual std::string name() const = 0;

  /// One call. The root is rank 0, values are float32, sums are sums.
  virtual void call(Operation operation, const Buffers& buffers) = 0;
  void barrier() { call(Operation::barrier, {}); }
  /// Called before the rank falls asleep: sends what a library without a thread of its own may
  /// still hold back.
  virtual void settle() {}

 protected:
  /// Throws: the library has no such operation.
  [[noreturn]] void no_such_call(Operation operation) const;
};

/// The arguments of a worker: --socket PATH [--pin] [--rank R --size N --directory FOLDER].
struct WorkerOptions {
  std::string socket;
  bool pin = false;  ///< bind rank r to the r-th usable CPU; for libraries whose launcher does not
  int rank = -1;     ///< gloo: given by the harness
  int size = -1;
  std::string directory;  ///< gloo: folder of the file store
};
WorkerOptions parse_worker_options(int argc, char** argv);

/// Binds the calling thread to the `rank`-th CPU it may use.
void pin_to_cpu_of(int rank);

/// Obeys the harness until it says quit or goes away. Returns the exit code.
int serve(Library& library, const std::string& socket);

}  // namespace tutti::bench
