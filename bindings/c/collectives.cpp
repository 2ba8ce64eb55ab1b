// <tutti/c.h>: the collectives.
#include <numeric>
#include <vector>

#include "face.hpp"

using namespace tutti::c;  // NOLINT: the functions are C's

namespace {

/// A buffer that only the root has; elsewhere nothing.
tutti::TensorView of_root(tutti_group* group, const void* all, std::size_t count, int dtype,
                          int root, std::size_t blocks) {
  if (of(group).rank() != root) return view(group, nullptr, 0, dtype);
  return view(group, all, count, dtype, blocks);
}

/// The blocks of all ranks where this rank has them, and how many elements each has; else its own
/// count alone.
struct Blocks {
  Blocks(tutti_group* group, const void* memory, const std::size_t& own, const std::size_t* given,
         int dtype, bool has_all = true)
      : counts(&own, 1) {
    std::size_t sum = 0;
    if (has_all) {
      counts = {&at(given, "counts"), ranks_of(group)};
      for (const std::size_t count : counts) {
        if (__builtin_add_overflow(sum, count, &sum))
          refuse("the sum of the counts is larger than memory can be");
      }
    }
    all = view(group, has_all ? memory : nullptr, sum, dtype);
  }

  tutti::TensorView all;
  std::span<const std::size_t> counts;
};

/// The views of several tensors; each has `blocks` blocks of its count.
std::vector<tutti::TensorView> views(tutti_group* group, void* const* buffers,
                                     const std::size_t* counts, int tensors, int dtype,
                                     std::size_t blocks = 1) {
  const std::span<void* const> list = list_of(buffers, tensors, "buffers");
  const std::span<const std::size_t> each = list_of(counts, tensors, "counts");
  std::vector<tutti::TensorView> all;
  for (std::size_t t = 0; t < list.size(); ++t)
    all.push_back(view(group, list[t], each[t], dtype, blocks));
  return all;
}

/// The memory that the program makes when the counts are known.
tutti::MakeBlocks memory_by(tutti_group* group, tutti_make_blocks make, void* context, int dtype) {
  if (make == nullptr) refuse("make is NULL");
  return [=](std::span<const std::size_t> counts) {
    void* const memory = make(context, counts.data(), static_cast<int>(counts.size()));
    const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    if (memory == nullptr && sum > 0)
      tutti::raise(tutti::Outcome(tutti::Errc::resource,
                                  "make gave no memory for " + std::to_string(sum) + " elements"));
    return view(group, memory, sum, dtype);
  };
}

}  // namespace

// Made from the headers by tools/made.py --write.
int tutti_all_reduce(tutti_group* group, void* buffer, size_t count, int dtype, int op,
                     tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).all_reduce(view(group, buffer, count, dtype), *own_op,
                                  {.timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).all_reduce(
        view(group, buffer, count, dtype),
        {.op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_all_reduce_into(tutti_group* group, void* output, const void* input, size_t count,
                          int dtype, int op, tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).all_reduce(view(group, output, count, dtype),
                                  view(group, input, count, dtype), *own_op,
                                  {.timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).all_reduce(
        view(group, output, count, dtype), view(group, input, count, dtype),
        {.op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_broadcast(tutti_group* group, void* buffer, size_t count, int dtype, int root,
                    tutti_work** work) {
  return run(group, work, [&] {
    return of(group).broadcast(view(group, buffer, count, dtype),
                               {.root = root, .timeout = group->settings.timeout});
  });
}

int tutti_reduce(tutti_group* group, void* buffer, size_t count, int dtype, int op, int root,
                 tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).reduce(view(group, buffer, count, dtype), *own_op,
                              {.root = root, .timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).reduce(
        view(group, buffer, count, dtype),
        {.root = root, .op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_reduce_into(tutti_group* group, void* output, const void* input, size_t count, int dtype,
                      int op, int root, tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).reduce(of_root(group, output, count, dtype, root, 1),
                              view(group, input, count, dtype), *own_op,
                              {.root = root, .timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).reduce(
        of_root(group, output, count, dtype, root, 1), view(group, input, count, dtype),
        {.root = root, .op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_scan(tutti_group* group, void* buffer, size_t count, int dtype, int op, int exclusive,
               tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).scan(view(group, buffer, count, dtype), *own_op,
                            {.exclusive = exclusive != 0, .timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).scan(view(group, buffer, count, dtype), {.op = by.op,
                                                              .exclusive = exclusive != 0,
                                                              .factor = by.factor,
                                                              .timeout = group->settings.timeout});
  });
}

int tutti_scan_into(tutti_group* group, void* output, const void* input, size_t count, int dtype,
                    int op, int exclusive, tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).scan(view(group, output, count, dtype), view(group, input, count, dtype),
                            *own_op,
                            {.exclusive = exclusive != 0, .timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).scan(view(group, output, count, dtype), view(group, input, count, dtype),
                          {.op = by.op,
                           .exclusive = exclusive != 0,
                           .factor = by.factor,
                           .timeout = group->settings.timeout});
  });
}

int tutti_all_gather(tutti_group* group, void* all, const void* own, size_t count, int dtype,
                     tutti_work** work) {
  return run(group, work, [&] {
    return of(group).all_gather(view(group, all, count, dtype, ranks_of(group)),
                                view(group, own, count, dtype),
                                {.timeout = group->settings.timeout});
  });
}

int tutti_all_gather_v(tutti_group* group, void* all, const void* own, size_t count,
                       const size_t* counts, int dtype, tutti_work** work) {
  return run(group, work, [&] {
    const Blocks blocks(group, all, count, counts, dtype);
    return of(group).all_gather(
        blocks.all, view(group, own, count, dtype),
        {.output_counts = blocks.counts, .timeout = group->settings.timeout});
  });
}

int tutti_gather(tutti_group* group, void* all, const void* own, size_t count, int dtype, int root,
                 tutti_work** work) {
  return run(group, work, [&] {
    return of(group).gather(of_root(group, all, count, dtype, root, ranks_of(group)),
                            view(group, own, count, dtype),
                            {.root = root, .timeout = group->settings.timeout});
  });
}

int tutti_gather_v(tutti_group* group, void* all, const void* own, size_t count,
                   const size_t* counts, int dtype, int root, tutti_work** work) {
  return run(group, work, [&] {
    const Blocks blocks(group, all, count, counts, dtype, of(group).rank() == root);
    return of(group).gather(
        blocks.all, view(group, own, count, dtype),
        {.root = root, .output_counts = blocks.counts, .timeout = group->settings.timeout});
  });
}

int tutti_scatter(tutti_group* group, void* own, const void* all, size_t count, int dtype, int root,
                  tutti_work** work) {
  return run(group, work, [&] {
    return of(group).scatter(view(group, own, count, dtype),
                             of_root(group, all, count, dtype, root, ranks_of(group)),
                             {.root = root, .timeout = group->settings.timeout});
  });
}

int tutti_scatter_v(tutti_group* group, void* own, const void* all, size_t count,
                    const size_t* counts, int dtype, int root, tutti_work** work) {
  return run(group, work, [&] {
    const Blocks blocks(group, all, count, counts, dtype, of(group).rank() == root);
    return of(group).scatter(
        view(group, own, count, dtype), blocks.all,
        {.root = root, .input_counts = blocks.counts, .timeout = group->settings.timeout});
  });
}

int tutti_reduce_scatter(tutti_group* group, void* own, const void* all, size_t count, int dtype,
                         int op, tutti_work** work) {
  return run(group, work, [&] {
    const AnyOp any = op_of(op);
    if (const auto* const own_op = std::get_if<tutti::UserOp>(&any))
      return of(group).reduce_scatter(view(group, own, count, dtype),
                                      view(group, all, count, dtype, ranks_of(group)), *own_op,
                                      {.timeout = group->settings.timeout});
    const auto& by = std::get<LibraryOp>(any);
    return of(group).reduce_scatter(
        view(group, own, count, dtype), view(group, all, count, dtype, ranks_of(group)),
        {.op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_reduce_scatter_v(tutti_group* group, void* own, const void* all, size_t count,
                           const size_t* counts, int dtype, int op, tutti_work** work) {
  return run(group, work, [&] {
    const Blocks blocks(group, all, count, counts, dtype);
    const LibraryOp by = library_op_of(op);
    return of(group).reduce_scatter(view(group, own, count, dtype), blocks.all,
                                    {.op = by.op,
                                     .factor = by.factor,
                                     .input_counts = blocks.counts,
                                     .timeout = group->settings.timeout});
  });
}

int tutti_all_to_all(tutti_group* group, void* output, const void* input, size_t count, int dtype,
                     tutti_work** work) {
  return run(group, work, [&] {
    return of(group).all_to_all(view(group, output, count, dtype, ranks_of(group)),
                                view(group, input, count, dtype, ranks_of(group)),
                                {.timeout = group->settings.timeout});
  });
}

int tutti_all_to_all_v(tutti_group* group, void* output, const size_t* output_counts,
                       const void* input, const size_t* input_counts, int dtype,
                       tutti_work** work) {
  return run(group, work, [&] {
    const Blocks output_blocks(group, output, 0, output_counts, dtype);
    const Blocks input_blocks(group, input, 0, input_counts, dtype);
    return of(group).all_to_all(output_blocks.all, input_blocks.all,
                                {.output_splits = output_blocks.counts,
                                 .input_splits = input_blocks.counts,
                                 .timeout = group->settings.timeout});
  });
}

int tutti_all_reduce_coalesced(tutti_group* group, void* const* buffers, const size_t* counts,
                               int tensors, int dtype, int op, tutti_work** work) {
  return run(group, work, [&] {
    const LibraryOp by = library_op_of(op);
    return of(group).all_reduce_coalesced(
        views(group, buffers, counts, tensors, dtype),
        {.op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_broadcast_coalesced(tutti_group* group, void* const* buffers, const size_t* counts,
                              int tensors, int dtype, int root, tutti_work** work) {
  return run(group, work, [&] {
    return of(group).broadcast_coalesced(views(group, buffers, counts, tensors, dtype),
                                         {.root = root, .timeout = group->settings.timeout});
  });
}

int tutti_all_gather_coalesced(tutti_group* group, void* const* all, void* const* own,
                               const size_t* counts, int tensors, int dtype, tutti_work** work) {
  return run(group, work, [&] {
    return of(group).all_gather_coalesced(
        views(group, all, counts, tensors, dtype, ranks_of(group)),
        views(group, own, counts, tensors, dtype), {.timeout = group->settings.timeout});
  });
}

int tutti_reduce_scatter_coalesced(tutti_group* group, void* const* own, void* const* all,
                                   const size_t* counts, int tensors, int dtype, int op,
                                   tutti_work** work) {
  return run(group, work, [&] {
    const LibraryOp by = library_op_of(op);
    return of(group).reduce_scatter_coalesced(
        views(group, own, counts, tensors, dtype),
        views(group, all, counts, tensors, dtype, ranks_of(group)),
        {.op = by.op, .factor = by.factor, .timeout = group->settings.timeout});
  });
}

int tutti_barrier(tutti_group* group, tutti_work** work) {
  return run(group, work, [&] { return of(group).barrier({.timeout = group->settings.timeout}); });
}

// The end of what is made.

int tutti_all_gather_v_make(tutti_group* group, const void* own, size_t count, int dtype,
                            tutti_make_blocks make, void* context, tutti_work** work) {
  return run(group, work, [&] {
    return of(group).all_gather_v(view(group, own, count, dtype),
                                  memory_by(group, make, context, dtype),
                                  {.timeout = group->settings.timeout});
  });
}

int tutti_gather_v_make(tutti_group* group, const void* own, size_t count, int dtype, int root,
                        tutti_make_blocks make, void* context, tutti_work** work) {
  return run(group, work, [&] {
    const tutti::MakeBlocks memory =
        of(group).rank() == root ? memory_by(group, make, context, dtype) : tutti::MakeBlocks();
    return of(group).gather_v(view(group, own, count, dtype), memory,
                              {.root = root, .timeout = group->settings.timeout});
  });
}

int tutti_all_to_all_v_make(tutti_group* group, const void* input, const size_t* send_counts,
                            int dtype, tutti_make_blocks make, void* context, tutti_work** work) {
  return run(group, work, [&] {
    const Blocks blocks(group, input, 0, send_counts, dtype);
    return of(group).all_to_all_v(blocks.all, blocks.counts, memory_by(group, make, context, dtype),
                                  {.timeout = group->settings.timeout});
  });
}
