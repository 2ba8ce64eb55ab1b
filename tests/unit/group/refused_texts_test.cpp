#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <tutti/backend/group_access.hpp>
#include <tutti/launch.hpp>
#include <tutti/tutti.hpp>

#include "call/gpu_calls.hpp"
#include "unit/group/error_text.hpp"

// The texts of refused calls that docs/reference/errors.md shows, word for word.
namespace tutti {
namespace {

using test::text_of;

/// One rank of four calls, and nothing is sent: the others need not take part.
template <class Body>
void by_rank_0(const Body& body) {
  run_threads(4, [&](ProcessGroup& world) {
    if (world.rank() == 0) body(world);
  });
}

TEST(RefusedTexts, OfCollectives) {
  by_rank_0([](ProcessGroup& world) {
    std::vector<float> four(4);
    EXPECT_EQ(
        text_of<InvalidArgument>([&] { world.broadcast(TensorView(four), {.root = 7}).wait(); }),
        "broadcast(root 7, float32 x 4) in group 'world': root must be a rank of the group, "
        "0 to 3");
    EXPECT_EQ(text_of<InvalidArgument>(
                  [&] { world.all_reduce(four, {.timeout = std::chrono::seconds(0)}).wait(); }),
              "all_reduce(SUM, float32 x 4) in group 'world': the timeout must be positive");
    const std::int64_t shape[] = {2, 3};
    const std::int64_t strides[] = {0, 1};
    const TensorView twice(four.data(), DType::float32, shape, strides);
    EXPECT_EQ(
        text_of<InvalidArgument>([&] { world.all_reduce(twice).wait(); }),
        "all_reduce(SUM, float32 x 6) in group 'world': the output has strides by which "
        "several elements share memory (a stride of 0, or rows that overlap); copy it first: the "
        "other ranks wait in this operation for this one");
    EXPECT_EQ(
        text_of<InvalidArgument>([&] { world.all_reduce(four, {.op = ReduceOp::band}).wait(); }),
        "all_reduce(BAND, float32 x 4) in group 'world': BAND of float32 has no meaning");
    std::vector<float> twelve(12);
    EXPECT_EQ(
        text_of<InvalidArgument>(
            [&] { world.all_gather(TensorView(twelve), TensorView(four)).wait(); }),
        "all_gather(float32 x 4) in group 'world': the output has 12 elements; it must have 4 "
        "times the input's 4");
    // On a device no other memory can stand in.
    const Device device{DeviceType::cuda, 0};
    std::vector<TensorView> overlapping;
    std::vector<float> rows(16);
    for (const std::size_t begin : {0U, 4U, 6U, 12U})
      overlapping.emplace_back(&rows[begin], DType::float32, 4, device);
    EXPECT_EQ(
        text_of<InvalidArgument>([&] {
          world.all_gather(overlapping, TensorView(four.data(), DType::float32, 4, device)).wait();
        }),
        "all_gather(float32 x 4) in group 'world': two tensors of the output overlap; each "
        "must have memory of its own");
    const std::span<TensorView> apart = std::span(overlapping).first(2);
    EXPECT_EQ(
        text_of<InvalidArgument>([&] {
          world.all_gather(TensorView(rows.data(), DType::float32, 16, device), apart[1]).wait();
        }),
        "all_gather(float32 x 4) in group 'world': input and output overlap; only this "
        "rank's own block may be both");
  });
}

TEST(RefusedTexts, OfNewGroups) {
  by_rank_0([](ProcessGroup& world) {
    EXPECT_EQ(text_of<InvalidArgument>([&] {
                (void)world.new_group({1, 2, 2});
              }),
              "new_group in group 'world': rank 2 is listed twice");
    EXPECT_EQ(text_of<InvalidArgument>([&] {
                (void)world.new_group({0, 1}, {.timeout = std::chrono::seconds(0)});
              }),
              "new_group in group 'world': the timeout must be positive");
  });
  run_threads(2, [](ProcessGroup& world) {
    std::vector<float> four(4);
    ProcessGroup moved = world;
    const ProcessGroup to = std::move(moved);
    ProcessGroup first = world.new_group({0});
    EXPECT_EQ(static_cast<bool>(first), world.rank() == 0);
    std::vector<ProcessGroup> none{ProcessGroup(), moved, world.split(std::nullopt)};
    if (world.rank() == 1) none.push_back(first);
    for (ProcessGroup& group : none) {
      EXPECT_FALSE(group);
      EXPECT_EQ(text_of<InvalidArgument>([&] { group.all_reduce(four).wait(); }),
                "this ProcessGroup has no group: it was made without one or moved from, or this "
                "rank is no member of what new_group or split has made");
      EXPECT_THROW(group.send(four, 0), InvalidArgument);
      EXPECT_THROW((void)group.rank(), InvalidArgument);
      EXPECT_THROW((void)group.name(), InvalidArgument);
      EXPECT_THROW((void)group.new_group({0}), InvalidArgument);
      EXPECT_THROW(group.abort("why"), InvalidArgument);
      EXPECT_THROW((void)group.health(), InvalidArgument);
      EXPECT_THROW((void)GroupAccess::backend(group), InvalidArgument);
    }
    world.barrier().wait();
    EXPECT_EQ(to.size(), 2);
  });
}

TEST(RefusedTexts, OfMessages) {
  by_rank_0([](ProcessGroup& world) {
    std::vector<float> four(4);
    EXPECT_EQ(
        text_of<InvalidArgument>([&] { world.send(TensorView(nullptr, DType::float32, 4), 1); }),
        "send(to 1, tag 0, float32 x 4) in group 'world': the buffer has no memory (a null "
        "pointer)");
    EXPECT_EQ(text_of<InvalidArgument>([&] { world.send(TensorView(four), 4); }),
              "send(to 4, tag 0, float32 x 4) in group 'world': the receiver must be a rank of the "
              "group, 0 to 3");
    EXPECT_EQ(text_of<InvalidArgument>([&] { world.recv(TensorView(four), 1, {.tag = -1}); }),
              "recv(from 1, tag -1, float32 x 4) in group 'world': a tag must not be negative; "
              "take 0 or more, the same on both ranks");
    EXPECT_EQ(text_of<InvalidArgument>([&] {
                call::GpuMessage ours;
                Details details;
                details.gpu_message = &ours;
                Collective call{.kind = Kind::recv,
                                .root = 1,
                                .input = {},
                                .output = TensorView(four),
                                .details = &details};
                (void)GroupAccess::submit(world, call, std::nullopt, false);
              }),
              "recv(from 1, tag 0, float32 x 4) in group 'world': Details::gpu_message is for the "
              "library itself");
    EXPECT_TRUE(world.batch_isend_irecv({}).empty()) << "nothing to refuse";
  });
}

TEST(RefusedTexts, OfSeveralTensors) {
  by_rank_0([](ProcessGroup& world) {
    std::vector<float> floats(14);
    std::vector<std::int32_t> integers(2);
    const std::vector<TensorView> unlike = {TensorView(floats.data(), DType::float32, 2),
                                            TensorView(&floats[2], DType::float32, 2),
                                            TensorView(integers)};
    EXPECT_EQ(text_of<InvalidArgument>([&] { world.all_reduce_coalesced(unlike).wait(); }),
              "all_reduce_coalesced in group 'world': tensor 2 is int32, but tensor 0 is float32; "
              "all must have one dtype: call once for each dtype");
  });
}

}  // namespace
}  // namespace tutti
