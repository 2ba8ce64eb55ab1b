#pragma once

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include <tutti/backend/group_access.hpp>

#include "engine/credit_account.hpp"
#include "mock_staged_ranks.hpp"
#include "support/rotation.hpp"

// How tests run ranks whose tensors go from GPU to GPU, over a mock of CUDA's driver.
namespace tutti::test {

/// Without one of them no memory is shared.
inline const std::vector<std::string> kSharing = {"cuMemCreate",
                                                  "cuMemExportToShareableHandle",
                                                  "cuMemImportFromShareableHandle",
                                                  "cuMemAddressReserve",
                                                  "cuMemMap",
                                                  "cuMemSetAccess"};

/// Each function of CUDA that rank 0 calls in the program fails on one of the ranks in its turn.
/// The error has its text, and nothing is left. `functions`: some of them. Returns how many runs
/// failed.
inline int expect_failures_told(const std::vector<std::string>& functions,
                                const std::vector<int>& faulty, const Arrangement::Body& program,
                                const gpu::DirectOptions& direct) {
  const std::vector<std::string> called =
      functions_of<MockGpuWorld>([&](MockGpuWorld& mock) { run_direct(mock, direct, program); });
  EXPECT_THAT(called, testing::IsSupersetOf(functions));
  int failed = 0;
  // The tensors outlive the world only while all goes well: so a failure must leave no copy.
  plant_each<MockGpuWorld>(
      called, {0, 1, 2, 5, 9, 20}, faulty,
      [&](MockGpuWorld& mock) { run_mock_staged(mock, {.direct = direct}, program); },
      [&](MockGpuWorld& /*mock*/, const Fault& fault, const std::string& text) {
        if (text.empty()) return;
        ++failed;
        EXPECT_THAT(text, testing::HasSubstr(fault.function + " failed: a planted fault of CUDA"));
      });
  return failed;
}

/// The factor of PREMUL_SUM: a number of the host or of the GPU, or one for each element, in a
/// row or far from each other.
enum class By : std::uint8_t { number, number_of_gpu, each, each_far };
inline constexpr std::array kEveryBy = {By::number, By::number_of_gpu, By::each, By::each_far};

/// One operation with elements of any bits.
struct Case {
  Kind kind = Kind::all_reduce;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::float32;
  std::size_t count = 1;  ///< elements of a block
  int step = 1;           ///< between elements
  std::size_t shift = 0;  ///< of the output's memory, in elements
  By by = By::number;     ///< PREMUL_SUM; of rank 0, and the others have the next ones
};

/// The result on a rank, all bytes of its output's memory. Of GPUs, or of the CPU.
inline std::vector<std::byte> result_of(ProcessGroup& world, const Case& one, bool gpu) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const Layout layout = traits_of(one.kind).layout;
  const bool wide_in = layout == Layout::scatter || layout == Layout::exchange;
  const bool wide_out = layout == Layout::gather || layout == Layout::exchange;
  const std::size_t element = size_of(one.dtype);
  const Device device = gpu ? kGpu : Device();
  const auto place = [&](std::size_t blocks, std::size_t step) {
    return std::vector<std::byte>((blocks * one.count * step + one.shift + 1) * element);
  };
  std::vector<std::byte> in = place(wide_in ? ranks : 1, static_cast<std::size_t>(one.step));
  std::vector<std::byte> out = place(wide_out ? ranks : 1, static_cast<std::size_t>(one.step));
  std::vector<std::byte> factors = place(wide_in ? ranks : 1, 3);
  std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()) * 1000 + one.count);
  for (std::byte& byte : in) byte = static_cast<std::byte>(random());
  for (std::byte& byte : factors) byte = static_cast<std::byte>(random());
  const auto view = [&](std::vector<std::byte>& memory, std::size_t blocks, std::size_t shift) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(blocks * one.count)};
    const std::int64_t strides[] = {one.step};
    return TensorView(memory.data() + shift * element, one.dtype, shape, strides, device);
  };
  Collective call;
  call.kind = one.kind;
  call.op = one.op;
  call.root = world.size() - 1;
  call.input = view(in, wide_in ? ranks : 1, layout == Layout::same ? one.shift : 0);
  call.output = layout == Layout::same ? call.input : view(out, wide_out ? ranks : 1, one.shift);
  Details details;
  if (one.op == ReduceOp::premul_sum) {
    std::byte* const first = factors.data() + one.shift * element;
    const auto count = static_cast<std::int64_t>(call.input.count());
    const std::int64_t rows[] = {2, count / 2};
    const std::int64_t far[] = {count / 2 * 3, 3};
    const By by =
        kEveryBy[(static_cast<std::size_t>(one.by) + static_cast<std::size_t>(world.rank())) %
                 kEveryBy.size()];
    if (by == By::number)
      details.factor = TensorView(first, one.dtype, 1);
    else if (by == By::number_of_gpu)
      details.factor = TensorView(first, one.dtype, 1, device);
    else if (by == By::each)
      details.factor = TensorView(first, one.dtype, call.input.count(), device);
    else if (count % 2 == 0)
      details.factor = TensorView(first, one.dtype, rows, far, device);
    else  // the last one first
      details.factor =
          TensorView(first + static_cast<std::size_t>(count - 1) * 3 * element, one.dtype,
                     std::array{count}, std::array{std::int64_t{-3}}, device);
    call.details = &details;
  }
  finish(GroupAccess::submit(world, call, std::nullopt, false));
  return layout == Layout::same ? in : out;
}

inline void compare(ProcessGroup& world, const Case& one) {
  SCOPED_TRACE(std::string(to_string(one.kind)) + ' ' + std::string(to_string(one.op)) + ' ' +
               std::string(to_string(one.dtype)) + " x " + std::to_string(one.count) + " step " +
               std::to_string(one.step) + " shift " + std::to_string(one.shift) + " by " +
               std::to_string(static_cast<int>(one.by)));
  const std::vector<std::byte> direct = result_of(world, one, true);
  const std::vector<std::byte> cpu = result_of(world, one, false);
  EXPECT_TRUE(direct == cpu);
}

/// Every kind with some dtypes and ops, with strides and with an output that is shifted.
inline void compare_kinds(ProcessGroup& world, const std::vector<std::size_t>& counts) {
  for (const Kind kind :
       {Kind::all_reduce, Kind::reduce, Kind::scan, Kind::exclusive_scan, Kind::reduce_scatter,
        Kind::broadcast, Kind::all_gather, Kind::gather, Kind::scatter, Kind::all_to_all}) {
    for (const std::size_t count : counts) {
      if (!takes_case(static_cast<std::uint64_t>(kind))) continue;
      compare(world, {kind, ReduceOp::avg, DType::bfloat16, count});
      compare(world, {kind, ReduceOp::max, DType::float64, count, 3});
      compare(world, {kind, ReduceOp::sum, DType::int16, count, 1, 3});
      compare(world, {kind, ReduceOp::product, DType::complex128, count, 2, 1});
      compare(world, {kind, ReduceOp::sum, DType::bool_, count});
    }
  }
}

inline void compare_scaled(ProcessGroup& world, Kind kind, DType dtype, std::size_t count, By by,
                           int step = 1, std::size_t shift = 0) {
  compare(world, {kind, ReduceOp::premul_sum, dtype, count, step, shift, by});
}

// Messages: those of a small size go by way of the host.

inline constexpr std::size_t kSmall = 100;                                 // by way of the host
inline constexpr std::size_t kMost = engine::kEagerLimit / sizeof(float);  // the largest of those
inline constexpr std::size_t kLarge = 5 * engine::kEagerLimit / 8;         // five parts
inline constexpr Device kOther{DeviceType::cuda, 1};

/// Of two ranks: rank 0 sends the tensor to rank 1.
inline Work pass(ProcessGroup& world, const TensorView& view, std::uintptr_t stream = 0,
                 std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
  const Kind kind = world.rank() == 0 ? Kind::send : Kind::recv;
  return message(world, kind, view, 1 - world.rank(), 0, stream, timeout);
}

inline TensorView on_cpu(std::vector<float>& values) {
  return TensorView(values.data(), DType::float32, values.size());
}

inline std::vector<float> numbers(std::size_t count, int first) {
  std::vector<float> made(count);
  std::iota(made.begin(), made.end(), static_cast<float>(first));
  return made;
}

}  // namespace tutti::test
