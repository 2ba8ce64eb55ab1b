// A library for the tests of `tutti bench`: right, or wrong in the way that FAKE_LIBRARY says.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "bench/peers/worker.hpp"

namespace {

using tutti::bench::Operation;

constexpr int kMostRanks = 8;
constexpr std::size_t kSlotFloats = 16384;

struct Shared {
  std::atomic<int> arrived;
  std::atomic<int> generation;
  float slots[kMostRanks][kSlotFloats];
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Fake final : public tutti::bench::Library {
 public:
  Fake() : rank_(std::stoi(variable("RANK"))), size_(std::stoi(variable("WORLD_SIZE"))) {
    const std::string path = variable("TMPDIR") + "/fake";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (size_ > kMostRanks || fd < 0 || ::ftruncate(fd, sizeof(Shared)) != 0) {
      throw std::runtime_error("cannot make the shared file");
    }
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map the shared file");
    shared_ = static_cast<Shared*>(memory);
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
  ~Fake() override { ::munmap(shared_, sizeof(Shared)); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string name() const override { return "fake " + fault_; }

  void call(Operation operation, const tutti::bench::Buffers& buffers) override {
    switch (operation) {
      case Operation::all_reduce: return all_reduce(buffers.output, buffers.count);
      case Operation::broadcast: return broadcast(buffers.output, buffers.count);
      case Operation::barrier:
        if (fault_ != "early") meet();
        return;
      default: throw std::runtime_error("the fake has no such operation");
    }
  }

 private:
  void all_reduce(float* data, std::size_t count) {
    if (fault_ == "dies" && rank_ == size_ - 1) std::_Exit(7);
    if (fault_ == "hangs" && rank_ == size_ - 1) ::pause();
    for (std::size_t at = 0; at < count; at += kSlotFloats) {
      const std::size_t part = std::min(kSlotFloats, count - at);
      std::copy_n(data + at, part, shared_->slots[rank_]);
      meet();
      for (std::size_t i = 0; i < part; ++i) {
        data[at + i] = shared_->slots[0][i];
        for (int r = 1; r < size_; ++r) data[at + i] += shared_->slots[r][i];
      }
      meet();
    }
    // The last rank's last element, in calls of some size: the hardest to see.
    if (fault_ == "wrong" && count > 1000 && rank_ == size_ - 1) data[count - 1] += 1;
  }

  void broadcast(float* data, std::size_t count) {
    for (std::size_t at = 0; at < count; at += kSlotFloats) {
      const std::size_t part = std::min(kSlotFloats, count - at);
      if (rank_ == 0) std::copy_n(data + at, part, shared_->slots[0]);
      meet();
      if (rank_ != 0) std::copy_n(shared_->slots[0], part, data + at);
      meet();
    }
  }

  void meet() {
    const int generation = shared_->generation;
    if (++shared_->arrived == size_) {
      shared_->arrived = 0;
      ++shared_->generation;
    } else {
      while (shared_->generation == generation) ::sched_yield();
    }
  }

  int rank_;
  int size_;
  std::string fault_ = variable("FAKE_LIBRARY");
  Shared* shared_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = tutti::bench::parse_worker_options(argc, argv);
    Fake library;
    return tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
