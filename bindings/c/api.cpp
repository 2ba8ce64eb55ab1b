// <tutti/c.h>: each function is a call of the C++ face; exceptions become results.
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/c.h>
#include <tutti/tutti.hpp>
#include <tutti/version.hpp>

struct tutti_group {
  tutti::ProcessGroup group;
};

struct tutti_work {
  tutti::Work work;
};

namespace {

using tutti::DType;
using tutti::Errc;
using tutti::ReduceOp;
using tutti::TensorView;

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(same(TUTTI_INVALID_ARGUMENT, Errc::invalid_argument) &&
              same(TUTTI_TIMEOUT, Errc::timeout) && same(TUTTI_STORE, Errc::store) &&
              same(TUTTI_ABORTED, Errc::aborted) && same(TUTTI_INTERNAL, Errc::internal) &&
              same(TUTTI_NO_QUORUM, Errc::no_quorum));
static_assert(same(TUTTI_BOOL, DType::bool_) && same(TUTTI_INT64, DType::int64) &&
              same(TUTTI_FLOAT64, DType::float64) && same(TUTTI_COMPLEX128, DType::complex128) &&
              TUTTI_COMPLEX128 + 1 == tutti::kDTypeCount);
static_assert(same(TUTTI_SUM, ReduceOp::sum) && same(TUTTI_MAX, ReduceOp::max) &&
              same(TUTTI_BXOR, ReduceOp::bxor));
static_assert(int{TUTTI_ANY_SOURCE} == tutti::any_source);
static_assert(int{TUTTI_ANY_TAG} == tutti::any_tag && int{TUTTI_NO_RANK} == tutti::no_rank);

struct LastError {
  std::string text;
  int rank = -1;
};
thread_local LastError last_error;

int failed(Errc code, std::string text, std::optional<int> rank = std::nullopt) noexcept {
  last_error = {std::move(text), rank.value_or(-1)};
  return static_cast<int>(code);
}

/// The result of `call`: its exception's.
template <class Call>
int result_of(Call&& call) noexcept {
  try {
    call();
    return TUTTI_OK;
  } catch (const tutti::Error& error) {
    return failed(error.code(), error.what(), error.culprit());
  } catch (const std::bad_alloc&) {
    return failed(Errc::resource, "no memory");
  } catch (const std::exception& error) {
    return failed(Errc::internal, error.what());
  } catch (...) {
    return failed(Errc::internal, "an unknown exception");
  }
}

[[noreturn]] void refuse(std::string text) {
  throw tutti::InvalidArgument(tutti::Outcome(Errc::invalid_argument, std::move(text)));
}

tutti::ProcessGroup& of(tutti_group* group) {
  if (group == nullptr) refuse("the group is NULL");
  return group->group;
}

/// The view of `blocks` blocks. A buffer that is only read is a view as well, which knows no const.
TensorView view(const void* data, std::size_t count, int dtype, std::size_t blocks = 1) {
  if (dtype < 0 || dtype >= tutti::kDTypeCount)
    refuse("dtype " + std::to_string(dtype) + " is none of tutti_dtype");
  std::size_t all = 0;
  std::size_t bytes = 0;
  const auto type = static_cast<DType>(dtype);
  if (__builtin_mul_overflow(count, blocks, &all) ||
      __builtin_mul_overflow(all, tutti::size_of(type), &bytes))
    refuse("a buffer of " + std::to_string(count) + " elements for each of " +
           std::to_string(blocks) + " ranks is larger than memory can be");
  if (data == nullptr && all > 0) refuse("the buffer is NULL");
  return {const_cast<void*>(data), type, all};
}

std::size_t ranks_of(tutti_group* group) { return static_cast<std::size_t>(of(group).size()); }

/// All blocks where this rank is the root; elsewhere nothing.
TensorView blocks_of_root(tutti_group* group, const void* all, std::size_t count, int dtype,
                          int root) {
  if (of(group).rank() != root) return view(nullptr, 0, dtype);
  return view(all, count, dtype, ranks_of(group));
}

/// The blocks of all ranks where this rank has them, and how many elements each has; else its own
/// count alone.
struct Blocks {
  Blocks(tutti_group* group, const void* memory, const std::size_t& own, const std::size_t* given,
         int dtype, bool has_all)
      : counts(&own, 1) {
    std::size_t sum = 0;
    if (has_all) {
      if (given == nullptr) refuse("counts is NULL");
      counts = {given, ranks_of(group)};
      for (const std::size_t count : counts) {
        if (__builtin_add_overflow(sum, count, &sum))
          refuse("the sum of the counts is larger than memory can be");
      }
    }
    all = view(has_all ? memory : nullptr, sum, dtype);
  }

  TensorView all;
  std::span<const std::size_t> counts;
};

ReduceOp op_of(int op) {
  if (op < 0 || op > TUTTI_BXOR) refuse("op " + std::to_string(op) + " is none of tutti_op");
  return static_cast<ReduceOp>(op);
}

std::optional<std::chrono::nanoseconds> timeout_of(double seconds) {
  if (seconds == 0) return std::nullopt;
  constexpr double kCentury = 100.0 * 366 * 86400;
  if (seconds == std::numeric_limits<double>::infinity()) seconds = kCentury;
  if (!(seconds > 0) || seconds > kCentury)
    refuse("a timeout is a number of seconds above 0, at most a century");
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

/// Starts the operation; waits for it, or hands it out.
template <class Start>
int run(tutti_work** work, Start&& start, int* source = nullptr) noexcept {
  return result_of([&] {
    if (work != nullptr) *work = nullptr;
    auto handle = work == nullptr ? nullptr : std::make_unique<tutti_work>();
    tutti::Work started = start();
    if (work == nullptr) {
      started.wait();
      if (source != nullptr) *source = started.source_rank();
      return;
    }
    handle->work = std::move(started);
    *work = handle.release();
  });
}

}  // namespace

const char* tutti_version() { return tutti::kVersion.data(); }
const char* tutti_error_text() { return last_error.text.c_str(); }
int tutti_error_rank() { return last_error.rank; }

int tutti_init(const char* init_method, int rank, int size, double timeout, tutti_group** world) {
  return result_of([&] {
    if (world == nullptr) refuse("tutti_init: world is NULL");
    *world = nullptr;
    tutti::InitOptions options;
    if (init_method != nullptr) options.init_method = init_method;
    if (rank != -1) options.rank = rank;
    if (size != -1) options.size = size;
    options.timeout = timeout_of(timeout);
    *world = new tutti_group{tutti::init_process_group(options)};
  });
}

int tutti_new_group(tutti_group* parent, const int* ranks, int count, tutti_group** group) {
  return result_of([&] {
    if (group == nullptr) refuse("tutti_new_group: group is NULL");
    *group = nullptr;
    if (count < 0 || (ranks == nullptr && count > 0)) refuse("tutti_new_group: ranks is NULL");
    auto made = of(parent).new_group(std::vector<int>(ranks, ranks + count));
    if (made) *group = new tutti_group{std::move(made)};
  });
}

void tutti_free(tutti_group* group) { delete group; }
int tutti_rank(const tutti_group* group) { return group == nullptr ? -1 : group->group.rank(); }
int tutti_size(const tutti_group* group) { return group == nullptr ? -1 : group->group.size(); }

int tutti_set_timeout(tutti_group* group, double seconds) {
  return result_of([&] {
    const auto timeout = timeout_of(seconds);
    if (!timeout) refuse("a timeout is a number of seconds above 0, at most a century");
    of(group).set_timeout(*timeout);
  });
}

int tutti_abort(tutti_group* group, const char* reason) {
  return result_of([&] { of(group).abort(reason == nullptr ? "tutti_abort was called" : reason); });
}

// Made from the headers by tools/made.py --write.
int tutti_all_reduce(tutti_group* group, void* buffer, size_t count, int dtype, int op,
                     tutti_work** work) {
  return run(work,
             [&] { return of(group).all_reduce(view(buffer, count, dtype), {.op = op_of(op)}); });
}

int tutti_broadcast(tutti_group* group, void* buffer, size_t count, int dtype, int root,
                    tutti_work** work) {
  return run(work, [&] { return of(group).broadcast(view(buffer, count, dtype), {.root = root}); });
}

int tutti_reduce(tutti_group* group, void* buffer, size_t count, int dtype, int op, int root,
                 tutti_work** work) {
  return run(work, [&] {
    return of(group).reduce(view(buffer, count, dtype), {.root = root, .op = op_of(op)});
  });
}

int tutti_scan(tutti_group* group, void* buffer, size_t count, int dtype, int op, int exclusive,
               tutti_work** work) {
  return run(work, [&] {
    return of(group).scan(view(buffer, count, dtype),
                          {.op = op_of(op), .exclusive = exclusive != 0});
  });
}

int tutti_all_gather(tutti_group* group, void* all, const void* own, size_t count, int dtype,
                     tutti_work** work) {
  return run(work, [&] {
    return of(group).all_gather(view(all, count, dtype, ranks_of(group)), view(own, count, dtype));
  });
}

int tutti_all_gather_v(tutti_group* group, void* all, const void* own, size_t count,
                       const size_t* counts, int dtype, tutti_work** work) {
  return run(work, [&] {
    const Blocks blocks(group, all, count, counts, dtype, true);
    return of(group).all_gather(blocks.all, view(own, count, dtype),
                                {.output_counts = blocks.counts});
  });
}

int tutti_gather(tutti_group* group, void* all, const void* own, size_t count, int dtype, int root,
                 tutti_work** work) {
  return run(work, [&] {
    return of(group).gather(blocks_of_root(group, all, count, dtype, root), view(own, count, dtype),
                            {.root = root});
  });
}

int tutti_gather_v(tutti_group* group, void* all, const void* own, size_t count,
                   const size_t* counts, int dtype, int root, tutti_work** work) {
  return run(work, [&] {
    const Blocks blocks(group, all, count, counts, dtype, of(group).rank() == root);
    return of(group).gather(blocks.all, view(own, count, dtype),
                            {.root = root, .output_counts = blocks.counts});
  });
}

int tutti_scatter(tutti_group* group, void* own, const void* all, size_t count, int dtype, int root,
                  tutti_work** work) {
  return run(work, [&] {
    return of(group).scatter(view(own, count, dtype),
                             blocks_of_root(group, all, count, dtype, root), {.root = root});
  });
}

int tutti_scatter_v(tutti_group* group, void* own, const void* all, size_t count,
                    const size_t* counts, int dtype, int root, tutti_work** work) {
  return run(work, [&] {
    const Blocks blocks(group, all, count, counts, dtype, of(group).rank() == root);
    return of(group).scatter(view(own, count, dtype), blocks.all,
                             {.root = root, .input_counts = blocks.counts});
  });
}

int tutti_reduce_scatter(tutti_group* group, void* own, const void* all, size_t count, int dtype,
                         int op, tutti_work** work) {
  return run(work, [&] {
    return of(group).reduce_scatter(view(own, count, dtype),
                                    view(all, count, dtype, ranks_of(group)), {.op = op_of(op)});
  });
}

int tutti_reduce_scatter_v(tutti_group* group, void* own, const void* all, size_t count,
                           const size_t* counts, int dtype, int op, tutti_work** work) {
  return run(work, [&] {
    const Blocks blocks(group, all, count, counts, dtype, true);
    return of(group).reduce_scatter(view(own, count, dtype), blocks.all,
                                    {.op = op_of(op), .input_counts = blocks.counts});
  });
}

int tutti_all_to_all(tutti_group* group, void* output, const void* input, size_t count, int dtype,
                     tutti_work** work) {
  return run(work, [&] {
    return of(group).all_to_all(view(output, count, dtype, ranks_of(group)),
                                view(input, count, dtype, ranks_of(group)));
  });
}

int tutti_barrier(tutti_group* group, tutti_work** work) {
  return run(work, [&] { return of(group).barrier(); });
}

// The end of what is made.

int tutti_send(tutti_group* group, const void* buffer, size_t count, int dtype, int dst, int tag,
               tutti_work** work) {
  return run(work, [&] { return of(group).isend(view(buffer, count, dtype), dst, {.tag = tag}); });
}

int tutti_recv(tutti_group* group, void* buffer, size_t count, int dtype, int src, int tag,
               int* source, tutti_work** work) {
  return run(
      work, [&] { return of(group).irecv(view(buffer, count, dtype), src, {.tag = tag}); }, source);
}

int tutti_wait(tutti_work* work, int* source) {
  const std::unique_ptr<tutti_work> ended(work);
  return result_of([&] {
    if (source != nullptr) *source = -1;
    if (work == nullptr) return;
    work->work.wait();
    if (source != nullptr) *source = work->work.source_rank();
  });
}

int tutti_test(tutti_work* work, int* done) {
  return result_of([&] {
    if (done == nullptr) refuse("tutti_test: done is NULL");
    *done = work == nullptr || work->work.done() ? 1 : 0;
  });
}
