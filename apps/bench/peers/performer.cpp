#include "apps/bench/peers/performer.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tutti::bench {

namespace {

/// The same clock in all processes of a machine.
double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Counts the context switches of this process into an answer, from its begin to its end.
class SwitchCounter {
 public:
  explicit SwitchCounter(Answer& answer) : answer_(answer) { count(-1); }
  SwitchCounter(const SwitchCounter&) = delete;
  SwitchCounter& operator=(const SwitchCounter&) = delete;
  ~SwitchCounter() { count(1); }

 private:
  void count(long sign) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    answer_.voluntary_switches += static_cast<std::uint64_t>(sign * usage.ru_nvcsw);
    answer_.involuntary_switches += static_cast<std::uint64_t>(sign * usage.ru_nivcsw);
  }
  Answer& answer_;
};

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

/// Small whole numbers: their float sums are exact in any order.
int value(int rank, int block, std::size_t i) {
  return static_cast<int>(i % 1021) + 7 * block + rank + 1;
}

template <class Value>
void fill(float* data, int block, std::size_t count, Value value) {
  float* const begin = data + static_cast<std::size_t>(block) * count;
  for (std::size_t i = 0; i < count; ++i) begin[i] = static_cast<float>(value(i));
}

}  // namespace

void Library::no_such_call(Operation operation) const {
  throw std::invalid_argument(name() + " has no " + std::string(name_of(operation)));
}

void Performer::Buffer::Free::operator()(std::byte* p) const { std::free(p); }

std::byte* Performer::Buffer::at_least(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  if (bytes > bytes_) {
    bytes_ = (std::max(bytes, kPage) + kPage - 1) / kPage * kPage;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes_)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes_);
  }
  return data_.get();
}

Answer Performer::obey(const Command& command) {
  samples_.clear();
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
  library_.use({reinterpret_cast<std::byte*>(buffers_.input), input_bytes_},
               {reinterpret_cast<std::byte*>(buffers_.output), output_bytes});
  switch (command.task) {
    case Task::loop: loop(command, answer); break;
    case Task::sync: sync(command, answer); break;
    case Task::verify: verify(answer); break;
    case Task::quit: break;
  }
  library_.barrier();
  library_.settle();
  answer.samples = samples_.size();
  if (answer.message[0] == '\0') answer.ok = 1;
  return answer;
}

/// The memory that the next call of a loop would find unchanged. It is written anew: data that
/// stays in caches would flatter a library that reads the memory of others directly.
std::span<std::byte> Performer::unwritten() const {
  if (library_.has_memory()) return {};
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
void Performer::rewrite() {
  const auto bytes = unwritten();
  if (!bytes.empty()) std::memset(bytes.data(), 0x30 + (++fill_ & 15), bytes.size());
}

/// all_reduce in place gets -0.0f: the only value besides infinity that is not all zero bits and
/// stays itself however often it is summed.
void Performer::prepare(std::uint64_t calls) {
  if (traits_of(operation_).reduces && in_place(operation_)) {
    std::fill_n(buffers_.output, buffers_.count, -0.0F);
  }
  rewrite();
  library_.upload(calls);
}

void Performer::loop(const Command& command, Answer& answer) {
  const std::size_t rewritten = unwritten().size();
  const bool timed_rewrite = rewritten >= kTimedRewriteBytes;
  prepare(command.warmup + command.iterations);
  library_.barrier();
  for (std::uint64_t i = 0; i < command.warmup; ++i) call();
  library_.barrier();
  double rewriting = 0;
  // On a stream a call of a loop has no end of its own.
  const std::uint64_t timed_alone = library_.has_memory() ? 0 : command.parameter;
  if (timed_alone > 0) samples_.reserve(command.iterations / timed_alone + 1);
  const SwitchCounter switches(answer);
  const double begin = now();
  for (std::uint64_t i = 0; i < command.iterations; ++i) {
    if (timed_rewrite) {
      const double start = now();
      rewrite();
      rewriting += now() - start;
    } else if (rewritten > 0) {
      rewrite();
    }
    if (timed_alone > 0 && i % timed_alone == 0) {
      const double start = now();
      call();
      samples_.push_back(now() - start);
    } else {
      call();
    }
  }
  library_.finish();
  answer.seconds = now() - begin;
  answer.rewrite_seconds = rewriting;
}

/// Where messages take long, ranks leave a barrier one after the other.
void Performer::begin_together(std::uint32_t lead_us) {
  library_.barrier();
  if (lead_us == 0 || library_.has_memory()) return;
  double start = now() + lead_us * 1e-6;
  std::array<float, sizeof start / sizeof(float)> words{};
  std::memcpy(words.data(), &start, sizeof start);
  library_.call(Operation::broadcast, {nullptr, words.data(), words.size()});
  std::memcpy(&start, words.data(), sizeof start);
  while (now() < start) ::sched_yield();  // ranks may share a core
}

void Performer::sync(const Command& command, Answer& answer) {
  const SwitchCounter switches(answer);
  samples_.reserve(command.iterations);
  const std::uint64_t calls = command.warmup + command.iterations;
  for (std::uint64_t i = 0; i < calls; ++i) {
    // Tensors that are given just before a call would be in the caches of a GPU.
    if (i == 0 || !library_.has_memory()) prepare(calls);
    begin_together(command.parameter);
    const double begin = now();
    call();
    library_.finish();
    const double end = now();
    if (i >= command.warmup) samples_.push_back(end - begin);
  }
}

void Performer::verify(Answer& answer) {
  if (operation_ == Operation::barrier) return record_barriers();
  const int rank = library_.rank();
  const std::size_t count = buffers_.count;
  // In place, the output is the input; else it must be written by the call.
  const int outputs = static_cast<int>(output_blocks(operation_, library_.size()));
  for (int block = 0; block < outputs; ++block) {
    fill(buffers_.output, block, count,
         [&](std::size_t i) { return in_place(operation_) ? value(rank, 0, i) : -1; });
  }
  if (input_bytes_ > 0) {
    const int inputs = static_cast<int>(input_blocks(operation_, library_.size()));
    for (int block = 0; block < inputs; ++block) {
      fill(buffers_.input, block, count, [&](std::size_t i) { return value(rank, block, i); });
    }
  }
  library_.upload(1);
  call();
  library_.fetch();
  for (int block = 0; block < outputs; ++block) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = static_cast<std::size_t>(block) * count + i;
      const int right = expected(block, i);
      if (buffers_.output[at] == static_cast<float>(right)) continue;
      std::snprintf(answer.message, sizeof answer.message, "rank %d: element %zu is %g, must be %g",
                    rank, at, static_cast<double>(buffers_.output[at]), static_cast<double>(right));
      return;
    }
  }
}

/// The value that the output must have after the call of `verify`.
int Performer::expected(int block, std::size_t i) const {
  const int rank = library_.rank();
  const RankRange from = ranks_in_result(operation_, rank, 0, library_.size());
  const int n = from.count;
  const auto sum = [&](int of_block) { return n * value(0, of_block, i) + n * (n - 1) / 2; };
  const KindTraits& traits = traits_of(operation_);
  const bool same = traits.layout == Layout::same;
  // A broadcast's root has as its output what it gave.
  if (!uses_output(operation_, rank, 0)) return same ? value(rank, 0, i) : -1;
  switch (traits.layout) {
    case Layout::none: break;
    case Layout::same: return traits.reduces ? sum(0) : value(from.first, 0, i);
    case Layout::gather: return value(block, 0, i);
    case Layout::scatter: return traits.reduces ? sum(rank) : value(from.first, rank, i);
    case Layout::exchange: return value(block, rank, i);
    case Layout::pair: return value(rank & ~1, 0, i);
  }
  return -1;
}

/// Each rank is late once; nobody may leave before the late one came. The harness compares.
void Performer::record_barriers() {
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

}  // namespace tutti::bench
