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
    copy_text(hello.title, library_.name());
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
    operation_ = operation_of(command.operation);
    const int rank = library_.rank();
    const int ranks = library_.size();
    bytes_ = command.bytes;
    const bool reads = uses_input(operation_, rank, 0);
    input_bytes_ = reads ? input_blocks(operation_, ranks) * bytes_ : 0;
    const std::size_t output_bytes = output_blocks(operation_, ranks) * bytes_;
    buffers_.input = floats(input_.at_least(input_bytes_));
    buffers_.output = floats(output_.at_least(output_bytes));
    buffers_.count = bytes_ / sizeof(float);
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

  void call() { library_.call(operation_, buffers_); }

  static float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

  /// The memory that the next call of a loop would find unchanged. It is written anew: data that
  /// stays in caches would flatter a library that reads the memory of others directly.
  [[nodiscard]] std::span<std::byte> unwritten() const {
    if (input_bytes_ > 0) return {reinterpret_cast<std::byte*>(buffers_.input), input_bytes_};
    const int rank = library_.rank();
    if (traits_of(operation_).layout == Layout::same && uses_input(operation_, rank, 0) &&
        !uses_output(operation_, rank, 0)) {
      return {reinterpret_cast<std::byte*>(buffers_.output), bytes_};
    }
    return {};
  }

  /// New input. Equal bytes from this range make floats between 1e-9 and 2, so that nothing
  /// overflows and nothing is denormal.
  void rewrite() {
    const auto bytes = unwritten();
    if (!bytes.empty()) std::memset(bytes.data(), 0x30 + (++fill_ & 15), bytes.size());
  }

  /// all_reduce in place gets -0.0f: the only value besides infinity that is not all zero bits and
  /// stays itself however often it is summed.
  void prepare() {
    if (traits_of(operation_).reduces && in_place(operation_)) {
      std::fill_n(buffers_.output, buffers_.count, -0.0F);
    }
    rewrite();
  }

  void loop(const Command& command, Answer& answer) {
    const std::size_t rewritten = unwritten().size();
    const bool timed_rewrite = rewritten >= kTimedRewriteBytes;
    prepare();
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
      } else if (rewritten > 0) {
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
      prepare();
      library_.barrier();
      const double begin = now();
      call();
      const double end = now();
      if (i >= command.warmup) samples_.push_back(end - begin);
    }
  }

  void verify(Answer& answer) {
    if (operation_ == Operation::barrier) return record_barriers();
    const int rank = library_.rank();
    const std::size_t count = buffers_.count;
    // In place, the output is the input; else it must be written by the call.
    const int outputs = static_cast<int>(output_blocks(operation_, library_.size()));
    for (int block = 0; block < outputs; ++block) {
      fill(buffers_.output, block,
           [&](std::size_t i) { return in_place(operation_) ? value(rank, 0, i) : -1; });
    }
    if (input_bytes_ > 0) {
      const int inputs = static_cast<int>(input_blocks(operation_, library_.size()));
      for (int block = 0; block < inputs; ++block) {
        fill(buffers_.input, block, [&](std::size_t i) { return value(rank, block, i); });
      }
    }
    call();
    for (int block = 0; block < outputs; ++block) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = static_cast<std::size_t>(block) * count + i;
        const int right = expected(block, i);
        if (buffers_.output[at] != static_cast<float>(right)) {
          return differs(answer, at, buffers_.output[at], right);
        }
      }
    }
  }

  template <class Value>
  void fill(float* data, int block, Value value) const {
    float* const begin = data + static_cast<std::size_t>(block) * buffers_.count;
    for (std::size_t i = 0; i < buffers_.count; ++i) begin[i] = static_cast<float>(value(i));
  }

  /// Small whole numbers: their float sums are exact in any order.
  static int value(int rank, int block, std::size_t i) {
    return static_cast<int>(i % 1021) + 7 * block + rank + 1;
  }

  /// The value that the output must have after the call of `verify`.
  [[nodiscard]] int expected(int block, std::size_t i) const {
    const int rank = library_.rank();
    const int n = ranks_combined(operation_, rank, library_.size());
    const auto sum = [&](int of_block) { return n * value(0, of_block, i) + n * (n - 1) / 2; };
    const KindTraits& traits = traits_of(operation_);
    const bool same = traits.layout == Layout::same;
    // A broadcast's root has as its output what it gave.
    if (!uses_output(operation_, rank, 0)) return same ? value(rank, 0, i) : -1;
    switch (traits.layout) {
      case Layout::none: break;
      case Layout::same: return traits.reduces ? sum(0) : value(0, 0, i);
      case Layout::gather: return value(block, 0, i);
      case Layout::scatter: return traits.reduces ? sum(rank) : value(0, rank, i);
      case Layout::exchange: return value(block, rank, i);
      case Layout::pair: return value(rank & ~1, 0, i);
    }
    return -1;
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
  Buffer input_;
  Buffer output_;
  Buffers buffers_;
  std::size_t input_bytes_ = 0;  ///< of this rank
  std::size_t bytes_ = 0;        ///< of a block
  Operation operation_ = Operation::barrier;
  unsigned char fill_ = 0;
  std::vector<double> samples_;
};

}  // namespace

void Library::no_such_call(Operation operation) const {
  throw std::invalid_argument(name() + " has no " + std::string(name_of(operation)));
}

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
