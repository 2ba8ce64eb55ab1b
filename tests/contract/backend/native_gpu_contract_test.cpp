#include "backend/native/native_backend.hpp"
#include "backend_contract.hpp"
#include "cuda/kernels/kernels.hpp"
#include "cuda/library.hpp"
#include "gpu/gpu_backend.hpp"
#include "group/plugins.hpp"
#include "on_gpu.hpp"

// The promises of every backend, on our own engine and the memory of GPUs, with ranks as processes:
// of real ones (tools/gpu_suite), or of the driver that TUTTI_CUDA_LIBRARY names.
namespace tutti::test {
namespace {

constexpr std::string_view kBackend = "native_gpu";

/// TUTTI_TEST_CHOICE=1: its groups may choose NCCL, as those of "auto".
Result<gpu::NcclOptions> beside_of(const Config& config) {
  if (number_of("TUTTI_TEST_CHOICE", 0) == 0) return gpu::NcclOptions();
  const BackendFactory nccl = group::load_plugin("nccl");
  if (!nccl.make_gpu_group) return Outcome(Errc::unsupported, "there is no plug-in for NCCL");
  const auto make_gpu_group = [config, make = nccl.make_gpu_group](Backend* cpus,
                                                                   const std::string& group) {
    WorldOptions options;
    options.name = group;
    options.config = config;
    return make(cpus, options);
  };
  return gpu::NcclOptions{.name = "nccl", .make = make_gpu_group};
}

void make_known() {
  if (is_available(kBackend)) return;
  const auto make_world = [](const WorldOptions& options) -> Result<Backend*> {
    Result<cuda::CudaApi*> driver = cuda::driver();
    if (!driver) return driver.status();
    const int count = gpus_of_driver();
    if (count == 0) return Outcome(Errc::unsupported, "CUDA finds no GPU");
    Result<Backend*> cpus = native::factory().make_world(options);
    if (!cpus) return cpus;
    // In parts that are smaller than its tensors, if it is told so.
    const gpu::DirectOptions usual;
    const auto slot = static_cast<std::size_t>(
        number_of("TUTTI_TEST_SLOT_BYTES", static_cast<int>(usual.slot_bytes)));
    Result<gpu::NcclOptions> beside = beside_of(options.config);
    if (!beside) return beside.status();
    // Without kernels, reductions go by way of the host, in parts of so many bytes.
    const int part = number_of("TUTTI_TEST_PART_BYTES", 0);
    Backend* const made = gpu::GpuBackend::make(
        *cpus, options.name, cuda::driver,
        {.on = options.config.cuda_ipc,
         .image = part == 0 ? cuda::kernels::image() : std::span<const std::byte>(),
         .slot_bytes = slot,
         .two_rounds_from = std::min(slot / 4, usual.two_rounds_from),
         .message_slot_bytes = std::min(32 * slot, usual.message_slot_bytes),
         .host_part_bytes = part == 0 ? usual.host_part_bytes : static_cast<std::size_t>(part)},
        std::move(*beside));
    const Gpu gpu{**driver, number_of("LOCAL_RANK", 0) % count};
    return static_cast<Backend*>(new OnGpu(made, kBackend, gpu));
  };
  // NCCL keeps fewer of them. It is taken where each rank has a GPU.
  const bool nccls =
      number_of("TUTTI_TEST_CHOICE", 0) != 0 && gpus_of_driver() >= number_of("WORLD_SIZE", 1);
  register_backend(
      {.name = std::string(kBackend),
       .make_world = make_world,
       .promises = nccls ? group::load_plugin("nccl").promises : native::factory().promises});
}

/// As the launcher has said.
std::vector<Arrangement> launched() {
  make_known();
  Arrangement one = launched_arrangement("Gpu", kBackend);
  one.foreign = std::nullopt;
  return {one};
}

INSTANTIATE_TEST_SUITE_P(Native, BackendContract, testing::ValuesIn(launched()), name_of);
INSTANTIATE_TEST_SUITE_P(Native, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(launched())), name_of);

/// Of a number and of one factor for each element, in parts, with strides.
template <class T>
void expect_scaled(ProcessGroup& world, std::size_t count, std::size_t step, bool each) {
  SCOPED_TRACE(std::to_string(count) + " step " + std::to_string(step) + (each ? " each" : ""));
  const auto factor_of = [&](int rank, std::size_t at) {
    return static_cast<T>(rank + 2 + (each ? static_cast<int>(at % 3) : 0));
  };
  std::vector<T> values(count * step, T{1});
  std::vector<T> factors(each ? count : 1);
  for (std::size_t at = 0; at < factors.size(); ++at) factors[at] = factor_of(world.rank(), at);
  const TensorView view(values.data(), *dtype_of<T>(), std::array{static_cast<std::int64_t>(count)},
                        std::array{static_cast<std::int64_t>(step)});
  world.all_reduce(view, {.op = ReduceOp::premul_sum, .factors = TensorView(factors)})
      .synchronize();
  for (std::size_t at = 0; at < count; ++at) {
    T sum{0};
    for (int rank = 0; rank < world.size(); ++rank) sum += factor_of(rank, at);
    ASSERT_EQ(values[at * step], sum) << at;
    if (step > 1) {
      ASSERT_EQ(values[at * step + 1], T{1});
    }
  }
}

TEST(NativeGpu, PremulSumScalesTheInputOfEachRank) {
  launched().front().run([](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'001}}) {
      for (const bool each : {false, true}) {
        expect_scaled<float>(world, count, 1, each && count > 1);
        expect_scaled<std::int32_t>(world, count, 3, each && count > 1);
      }
    }
  });
}

}  // namespace
}  // namespace tutti::test
