#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/bench/operations.hpp"
#include "apps/bench/protocol.hpp"

/// The part of a measured rank that is the same for all libraries, however it is started.
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
  /// True if the library works on memory of its own, such as a GPU's. Host memory stands for it:
  /// `use` tells which, `upload` copies it there for the next calls, `fetch` copies it from there.
  /// Each call finds its tensors cold, and is over at `finish`.
  [[nodiscard]] virtual bool has_memory() const { return false; }
  virtual void use(std::span<std::byte> /*input*/, std::span<std::byte> /*output*/) {}
  virtual void upload(std::uint64_t /*calls*/) {}
  virtual void fetch() {}
  virtual void finish() {}
  /// Called before the rank falls asleep: sends what a library without a thread of its own may
  /// still hold back.
  virtual void settle() {}

 protected:
  /// Throws: the library has no such operation.
  [[noreturn]] void no_such_call(Operation operation) const;
};

/// Does what the harness commands on one rank of a library.
class Performer {
 public:
  explicit Performer(Library& library) : library_(library) {}

  /// All ranks are given the same command. The samples of the answer are in `samples`.
  Answer obey(const Command& command);
  [[nodiscard]] std::span<const double> samples() const { return samples_; }

 private:
  /// Grows, never shrinks, so that a library may remember its pages.
  class Buffer {
   public:
    std::byte* at_least(std::size_t bytes);

   private:
    struct Free {
      void operator()(std::byte* p) const;
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t bytes_ = 0;
  };

  void call() { library_.call(operation_, buffers_); }
  [[nodiscard]] std::span<std::byte> unwritten() const;
  void rewrite();
  void prepare(std::uint64_t calls);
  void loop(const Command& command, Answer& answer);
  void sync(const Command& command, Answer& answer);
  void begin_together(std::uint32_t lead_us);
  void verify(Answer& answer);
  [[nodiscard]] int expected(int block, std::size_t i) const;
  void record_barriers();

  Library& library_;
  Buffer input_;
  Buffer output_;
  Buffers buffers_;
  std::size_t input_bytes_ = 0;  ///< of this rank
  std::size_t bytes_ = 0;        ///< of a block
  Operation operation_ = Operation::barrier;
  unsigned char fill_ = 0;
  std::vector<double> samples_;
};

}  // namespace tutti::bench
