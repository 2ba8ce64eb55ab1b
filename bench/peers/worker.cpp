#include "bench/peers/worker.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/protocol.hpp"

namespace tutti::bench {

namespace {

/// The same clock in all processes of a machine.
double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::uint64_t involuntary_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_nivcsw);
}

void copy_text(std::span<char> to, const std::string& text) {
  std::snprintf(to.data(), to.size(), "%s", text.c_str());
}

/// The buffer of a rank; grows, never shrinks, so that a library may remember its pages.
class Buffer {
 public:
  std::byte* at_least(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    if (bytes > bytes_) {
      bytes_ = (std::max(bytes, kPage) + kPage - 1) / kPage * kPage;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes_)));
      if (data_ == nullptr) throw std::bad_alloc();
      std::memset(data_.get(), 0, bytes_);
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

class Server {
 public:
  Server(Library& library, int fd) : library_(library), fd_(fd) {}

  int run() {
    Hello hello;
    hello.rank = library_.rank();
    hello.size = library_.size();
    copy_text(hello.library, library_.name());
    if (!send_all(fd_, &hello, sizeof hello)) return 1;
    Command command;
    while (receive_all(fd_, &command, sizeof command)) {
      if (command.magic != kMagic) return 1;
      if (command.task == Task::quit) return 0;
      samples_.clear();
      Answer answer = obey(command);
      answer.samples = samples_.size();
      if (!send_all(fd_, &answer, sizeof answer) ||
          !send_all(fd_, samples_.data(), samples_.size() * sizeof(double))) {
        return 1;
      }
    }
    return 1;  // the harness went away without saying quit
  }

 private:
  Answer obey(const Command& command) {
    Answer answer;
    operation_ = command.operation;
    bytes_ = command.bytes;
    data_ = buffer_.at_least(bytes_);
    const std::uint64_t switches = involuntary_switches();
    switch (command.task) {
      case Task::loop: loop(command, answer); break;
      case Task::sync: sync(command); break;
      case Task::verify: verify(answer); break;
      case Task::quit: break;
    }
    answer.involuntary_switches = involuntary_switches() - switches;
    library_.barrier();
    library_.settle();
    if (answer.message[0] == '\0') answer.ok = 1;
    return answer;
  }

  void call() {
    switch (operation_) {
      case Operation::all_reduce: library_.all_reduce(floats(), bytes_ / sizeof(float)); break;
      case Operation::broadcast: library_.broadcast(data_, bytes_); break;
      case Operation::barrier: library_.barrier(); break;
    }
  }

  float* floats() { return reinterpret_cast<float*>(data_); }

  /// New input. all_reduce gets -0.0f: the only value besides infinity that is not all zero bits
  /// and stays itself however often it is summed in place.
  void rewrite() {
    if (operation_ == Operation::all_reduce) {
      std::fill_n(floats(), bytes_ / sizeof(float), -0.0F);
    } else if (operation_ == Operation::broadcast && library_.rank() == 0) {
      std::memset(data_, ++fill_, bytes_);
    }
  }

  /// In a loop all_reduce writes its input itself, in place. The root of a broadcast does not, so
  /// it is made to: handing over what nobody touched since would flatter whoever reads directly.
  void loop(const Command& command, Answer& answer) {
    const bool rewrites = operation_ == Operation::broadcast && library_.rank() == 0;
    const bool timed_rewrite = rewrites && bytes_ >= kTimedRewriteBytes;
    rewrite();
    library_.barrier();
    for (std::uint64_t i = 0; i < command.warmup; ++i) call();
    library_.barrier();
    double rewriting = 0;
    const double begin = now();
    for (std::uint64_t i = 0; i < command.iterations; ++i) {
      if (timed_rewrite) {
        const double start = now();
        rewrite();
        rewriting += now() - start;
      } else if (rewrites) {
        rewrite();
      }
      call();
    }
    answer.seconds = now() - begin;
    answer.rewrite_seconds = rewriting;
  }

  void sync(const Command& command) {
    samples_.reserve(command.iterations);
    for (std::uint64_t i = 0; i < command.warmup + command.iterations; ++i) {
      rewrite();
      library_.barrier();
      const double begin = now();
      call();
      const double end = now();
      if (i >= command.warmup) samples_.push_back(end - begin);
    }
  }

  void verify(Answer& answer) {
    switch (operation_) {
      case Operation::all_reduce: return verify_all_reduce(answer);
      case Operation::broadcast: return verify_broadcast(answer);
      case Operation::barrier: return record_barriers();
    }
  }

  /// Small whole numbers: their float sums are exact in any order.
  void verify_all_reduce(Answer& answer) {
    const std::size_t count = bytes_ / sizeof(float);
    const int n = library_.size();
    const auto input = [](std::size_t i, int rank) {
      return static_cast<int>(i % 1021) + rank + 1;
    };
    for (std::size_t i = 0; i < count; ++i) {
      floats()[i] = static_cast<float>(input(i, library_.rank()));
    }
    call();
    for (std::size_t i = 0; i < count; ++i) {
      const int ranks = n * (n - 1) / 2;
      const float expected = static_cast<float>(n * input(i, 0) + ranks);
      if (floats()[i] != expected) return differs(answer, i, floats()[i], expected);
    }
  }

  void verify_broadcast(Answer& answer) {
    const auto value = [](std::size_t i, int rank) {
      return static_cast<std::byte>((i * 131 + i / 251 + static_cast<std::size_t>(rank) * 17) &
                                    255);
    };
    for (std::size_t i = 0; i < bytes_; ++i) data_[i] = value(i, library_.rank());
    call();
    for (std::size_t i = 0; i < bytes_; ++i) {
      if (data_[i] != value(i, 0)) {
        return differs(answer, i, static_cast<double>(data_[i]), static_cast<double>(value(i, 0)));
      }
    }
  }

  void differs(Answer& answer, std::size_t index, double is, double expected) const {
    char text[sizeof answer.message];
    std::snprintf(text, sizeof text, "rank %d: element %zu is %g, must be %g", library_.rank(),
                  index, is, expected);
    copy_text(answer.message, text);
  }

  /// Each rank is late once; nobody may leave before the late one came. The harness compares.
  void record_barriers() {
    for (int late = 0; late < library_.size(); ++late) {
      if (late == library_.rank()) {
        const timespec pause{0, 300'000};
        ::nanosleep(&pause, nullptr);
      }
      samples_.push_back(now());
      library_.barrier();
      samples_.push_back(now());
    }
  }

  Library& library_;
  int fd_;
  Buffer buffer_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Operation operation_ = Operation::barrier;
  unsigned char fill_ = 0;
  std::vector<double> samples_;
};

}  // namespace

WorkerOptions parse_worker_options(int argc, char** argv) {
  WorkerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--pin") {
      options.pin = true;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(name + " needs a value");
    if (name == "--socket") {
      options.socket = argv[i];
    } else if (name == "--rank") {
      options.rank = std::atoi(argv[i]);
    } else if (name == "--size") {
      options.size = std::atoi(argv[i]);
    } else if (name == "--directory") {
      options.directory = argv[i];
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (options.socket.empty()) {
    throw std::invalid_argument("this program is started by `tutti bench`: --socket is missing");
  }
  return options;
}

void pin_to_cpu_of(int rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = rank % std::max(1, CPU_COUNT(&allowed));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

int serve(Library& library, const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) throw std::invalid_argument("socket path too long");
  std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::perror("cannot reach `tutti bench`");
    return 1;
  }
  const int code = Server(library, fd).run();
  ::close(fd);
  return code;
}

}  // namespace tutti::bench
