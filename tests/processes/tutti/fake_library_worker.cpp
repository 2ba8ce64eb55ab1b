// A library for the tests of `tutti bench`: right, or wrong in the way that FAKE_LIBRARY says.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "apps/bench/peers/worker.hpp"
#include "apps/bench/protocol.hpp"

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

/// "takes 51000": so many nanoseconds pass in each call, and none otherwise.
std::int64_t call_ns = 0;
std::int64_t passed_ns = 0;

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
  [[nodiscard]] std::string name() const override {
    return "fake " + fault_ + ", TUTTI_BACKEND=" + variable("TUTTI_BACKEND");
  }

  void call(Operation operation, const tutti::bench::Buffers& buffers) override {
    passed_ns += call_ns;
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
    if (fault_ == "dies" && rank_ == size_ - 1) {
      std::fputs("the reason of the fake\n", stderr);
      std::_Exit(7);
    }
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

/// A worker of a later version, whose hello has other fields.
int greet_as_newer(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::uint32_t magic = tutti::bench::kMagic + 1;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      !tutti::bench::send_all(fd, &magic, sizeof magic)) {
    return 1;
  }
  char byte = 0;
  (void)tutti::bench::receive_all(fd, &byte, 1);  // until the harness goes away
  return 1;
}

}  // namespace

/// Takes the place of libc's, so that no time of a test depends on the machine.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (call_ns == 0) return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  constexpr std::int64_t kSecond = 1'000'000'000;
  *time = {passed_ns / kSecond, passed_ns % kSecond};
  return 0;
}

int main(int argc, char** argv) {
  try {
    const auto options = tutti::bench::parse_worker_options(argc, argv);
    const std::string fault = variable("FAKE_LIBRARY");
    if (fault == "newer") return greet_as_newer(options.socket);
    if (fault.starts_with("takes ")) call_ns = std::stoll(fault.substr(6));
    Fake library;
    return tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
