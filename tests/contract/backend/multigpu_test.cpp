#include <gmock/gmock.h>

#include "arrangement.hpp"
#include "cuda/device.hpp"
#include "gpu_stage.hpp"
#include "support/called_back.hpp"

// Operations on a list of tensors of each rank, with ranks as processes: tensors of the CPU and of
// GPUs, real ones (tools/gpu_suite) or those of the driver that TUTTI_CUDA_LIBRARY names.
namespace tutti::test {
namespace {

using Values = std::vector<std::int32_t>;

/// Memory of one tensor, on the CPU or on a GPU, in a row or with every second element unused.
class Tensor {
 public:
  Tensor(Values values, int gpu, bool strided)
      : values_(strided ? values.size() * 2 : values.size(), kMark), strided_(strided) {
    for (std::size_t i = 0; i < values.size(); ++i) values_[i * step()] = values[i];
    if (gpu < 0) return;
    Result<cuda::CudaApi*> driver = cuda::driver();
    cuda_ = driver.value();
    Result<std::unique_ptr<cuda::Device>> device = cuda::Device::open(*cuda_, gpu);
    device_ = std::move(device.value());
    on_gpu([&](cuda::Calls& calls) {
      calls.cuda("cuMemAllocAsync", cuda_->allocate(address_, bytes() + 1, cuda::Stream{}));
      calls.cuda("cuMemcpyAsync", cuda_->copy(address_, host(), bytes(), cuda::Stream{}));
    });
  }
  ~Tensor() {
    if (!device_) return;
    on_gpu([&](cuda::Calls&) {
      (void)cuda_->free(address_, cuda::Stream{});
      if (stream_ != cuda::Stream{}) (void)cuda_->destroy_stream(stream_);
    });
  }
  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = delete;

  [[nodiscard]] TensorView view() {
    Device device;
    void* data = values_.data();
    if (device_) {
      device = {DeviceType::cuda, static_cast<std::int16_t>(device_->index())};
      data = reinterpret_cast<void*>(address_);
    }
    if (!strided_) return TensorView(data, DType::int32, values_.size(), device);
    return TensorView(data, DType::int32, std::array{static_cast<std::int64_t>(values_.size() / 2)},
                      std::array{std::int64_t{2}}, device);
  }
  /// A stream of its GPU, which lives as long as this tensor.
  [[nodiscard]] std::uintptr_t make_stream() {
    on_gpu(
        [&](cuda::Calls& calls) { calls.cuda("cuStreamCreate", cuda_->create_stream(stream_)); });
    return static_cast<std::uintptr_t>(stream_);
  }
  /// What it holds now. Elements between its own have changed: one more of kMark at the end.
  [[nodiscard]] Values now() {
    if (device_) {
      on_gpu([&](cuda::Calls& calls) {
        calls.cuda("cuMemcpyAsync", cuda_->copy(host(), address_, bytes(), cuda::Stream{}));
      });
    }
    Values values;
    bool changed = false;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (i % step() == 0)
        values.push_back(values_[i]);
      else
        changed = changed || values_[i] != kMark;
    }
    if (changed) values.push_back(kMark);
    return values;
  }

 private:
  static constexpr std::int32_t kMark = -77;
  [[nodiscard]] std::size_t step() const { return strided_ ? 2 : 1; }
  [[nodiscard]] std::size_t bytes() const { return values_.size() * sizeof(std::int32_t); }
  [[nodiscard]] cuda::Address host() { return reinterpret_cast<cuda::Address>(values_.data()); }
  /// Runs it, and waits until the GPU is through.
  void on_gpu(const std::function<void(cuda::Calls&)>& action) {
    cuda::Calls calls(*cuda_);
    const cuda::Current current(*cuda_, *device_, calls);
    action(calls);
    cuda::Event event{};
    calls.cuda("cuEventCreate", cuda_->create_event(event));
    calls.cuda("cuEventRecord", cuda_->record_event(event, cuda::Stream{}));
    while (cuda_->query_event(event) == cuda::kCudaNotReady) std::this_thread::yield();
    (void)cuda_->destroy_event(event);
    EXPECT_TRUE(calls.ok()) << calls.failure();
  }

  Values values_;
  bool strided_;
  cuda::CudaApi* cuda_ = nullptr;
  std::unique_ptr<cuda::Device> device_;
  cuda::Address address_ = 0;
  cuda::Stream stream_{};
};

struct Where {
  std::string name;
  int gpus = 0;  ///< the tensors of a list are on these in turns; 0: on the CPU
};

class Multigpu : public testing::TestWithParam<Where> {
 protected:
  /// Of a tensor of a rank: as many elements as differ from each other in all tensors.
  static Values values_of(int rank, std::size_t tensor, std::size_t count) {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] =
          static_cast<std::int32_t>(1000 * rank) + static_cast<std::int32_t>(100 * tensor + i % 97);
    return values;
  }
  Tensor tensor(Values values, std::size_t number) {
    const int all = GetParam().gpus;
    const int gpu = all == 0 ? -1 : static_cast<int>(number) % all;
    return Tensor(std::move(values), gpu, ++made_ % 3 == 0);
  }
  std::vector<Tensor> list(int rank, std::size_t length, std::size_t count) {
    std::vector<Tensor> all;
    for (std::size_t j = 0; j < length; ++j) all.push_back(tensor(values_of(rank, j, count), j));
    return all;
  }
  /// For what an all_gather of `length` tensors gives: so many rows for each of them.
  std::vector<Tensor> rows_of(const ProcessGroup& world, std::size_t length, std::size_t count) {
    const std::size_t blocks = length * static_cast<std::size_t>(world.size());
    std::vector<Tensor> rows;
    for (std::size_t i = 0; i < length * blocks; ++i)
      rows.push_back(tensor(Values(count, -1), i / blocks));
    return rows;
  }
  static std::vector<TensorView> views(std::vector<Tensor>& tensors) {
    std::vector<TensorView> all;
    for (Tensor& one : tensors) all.push_back(one.view());
    return all;
  }
  static void in_world(const std::function<void(ProcessGroup& world)>& body) {
    run_launched(Config::from_environment().value(), body);
  }
  /// For each length of lists and number of elements.
  static void each(const std::function<void(ProcessGroup&, std::size_t, std::size_t)>& body) {
    in_world([&](ProcessGroup& world) {
      for (const std::size_t length : {1, 2, 3, 5}) {
        for (const std::size_t count : {0, 1, 5, 1000}) {
          SCOPED_TRACE(std::to_string(length) + " tensors of " + std::to_string(count));
          body(world, length, count);
        }
      }
    });
  }
  /// Sum, over all tensors of all ranks, of element i.
  static std::int32_t sum_of(int size, std::size_t length, std::size_t count, std::size_t i) {
    std::int32_t sum = 0;
    for (int r = 0; r < size; ++r) {
      for (std::size_t j = 0; j < length; ++j) sum += values_of(r, j, count)[i];
    }
    return sum;
  }

 private:
  int made_ = 0;
};

TEST_P(Multigpu, AllReduceCombinesAllTensorsOfAllRanks) {
  each([&](ProcessGroup& world, std::size_t length, std::size_t count) {
    std::vector<Tensor> mine = list(world.rank(), length, count);
    world.all_reduce_multigpu(views(mine)).wait();
    std::vector<Tensor> averaged = list(world.rank(), length, count);
    world.all_reduce_multigpu(views(averaged), {.op = ReduceOp::avg}).wait();
    std::vector<Tensor> largest = list(world.rank(), length, count);
    Work work = world.all_reduce_multigpu(views(largest), {.op = ReduceOp::max});
    ASSERT_TRUE(work.wait_for(kForever));
    const auto all = static_cast<std::int32_t>(length) * world.size();
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, count / 2, count - 1}) {
      if (i >= count) continue;
      const std::int32_t sum = sum_of(world.size(), length, count, i);
      for (std::size_t j = 0; j < length; ++j) {
        ASSERT_EQ(mine[j].now()[i], sum);
        ASSERT_EQ(averaged[j].now()[i], sum / all);
        ASSERT_EQ(largest[j].now()[i], values_of(world.size() - 1, length - 1, count)[i]);
      }
    }
    for (Tensor& one : mine) ASSERT_EQ(one.now().size(), count);
  });
}

TEST_P(Multigpu, ReduceGivesTheResultToOneTensor) {
  each([&](ProcessGroup& world, std::size_t length, std::size_t count) {
    const int root = world.size() - 1;
    const auto to = static_cast<int>(length / 2);
    std::vector<Tensor> mine = list(world.rank(), length, count);
    world.reduce_multigpu(views(mine), {.root = root, .root_tensor = to}).wait();
    for (std::size_t j = 0; j < length; ++j) {
      Values expected = values_of(world.rank(), j, count);
      if (world.rank() == root && j == static_cast<std::size_t>(to)) {
        for (std::size_t i = 0; i < count; ++i)
          expected[i] = sum_of(world.size(), length, count, i);
      }
      ASSERT_EQ(mine[j].now(), expected);
    }
  });
}

TEST_P(Multigpu, BroadcastCopiesOneTensorToAll) {
  each([&](ProcessGroup& world, std::size_t length, std::size_t count) {
    for (int from = 0; from < static_cast<int>(length); ++from) {
      const int root = from % world.size();
      std::vector<Tensor> mine = list(world.rank(), length, count);
      world.broadcast_multigpu(views(mine), {.root = root, .root_tensor = from}).wait();
      for (Tensor& one : mine)
        ASSERT_EQ(one.now(), values_of(root, static_cast<std::size_t>(from), count));
    }
  });
}

TEST_P(Multigpu, AllGatherFillsARowForEachTensor) {
  each([&](ProcessGroup& world, std::size_t length, std::size_t count) {
    std::vector<Tensor> mine = list(world.rank(), length, count);
    std::vector<Tensor> rows = rows_of(world, length, count);
    const std::size_t blocks = length * static_cast<std::size_t>(world.size());
    world.all_gather_multigpu(views(rows), views(mine)).wait();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t block = i % blocks;
      ASSERT_EQ(rows[i].now(), values_of(static_cast<int>(block / length), block % length, count));
    }
    for (std::size_t j = 0; j < length; ++j)
      ASSERT_EQ(mine[j].now(), values_of(world.rank(), j, count));
  });
}

TEST_P(Multigpu, SeveralRunAtOnceAndCallBack) {
  in_world([&](ProcessGroup& world) {
    std::vector<std::vector<Tensor>> lists;
    std::vector<Work> works;
    std::atomic<int> called{0};
    for (int round = 0; round < 6; ++round) {
      lists.push_back(list(world.rank() + round, 2, 50));
      works.push_back(world.all_reduce_multigpu(views(lists.back())));
      works.back().on_done(counts_in(called));
    }
    wait_all(works);
    while (called < 6) std::this_thread::yield();
    EXPECT_EQ(called, 6);
    for (int round = 0; round < 6; ++round) {
      std::int32_t sum = 0;
      for (int r = 0; r < world.size(); ++r)
        sum += values_of(r + round, 0, 1)[0] + values_of(r + round, 1, 1)[0];
      for (Tensor& one : lists[static_cast<std::size_t>(round)]) EXPECT_EQ(one.now()[0], sum);
    }
  });
}

TEST_P(Multigpu, ListsOfDifferentLengthsDisagree) {
  in_world([&](ProcessGroup& world) {
    if (world.size() == 1) return;
    const std::size_t length = world.rank() == 1 ? 3 : 2;
    std::vector<Tensor> mine = list(world.rank(), length, 4);
    std::vector<Tensor> rows = rows_of(world, length, 4);
    const std::vector<TensorView> all = views(mine);
    const std::function<Work(ProcessGroup&)> calls[] = {
        [&](ProcessGroup& group) { return group.all_reduce_multigpu(all); },
        [&](ProcessGroup& group) { return group.broadcast_multigpu(all); },
        [&](ProcessGroup& group) { return group.reduce_multigpu(all); },
        [&](ProcessGroup& group) { return group.all_gather_multigpu(views(rows), all); }};
    for (const auto& call : calls) {
      ProcessGroup group = world.new_subgroups(world.size());
      const Outcome error = error_of<DisagreementError>([&] {
        call(group).wait();
        group.barrier().wait();  // who roots may be through before the others have come
      });
      EXPECT_THAT(error.message(),
                  testing::AnyOf(testing::HasSubstr(" of other sizes or in another number. All"),
                                 testing::HasSubstr("all_gather(int32 x 12 per rank")));
      world.barrier().wait();
      if (&call != &calls[0]) continue;
      for (std::size_t j = 0; j < mine.size(); ++j)
        EXPECT_EQ(mine[j].now(), values_of(world.rank(), j, 4)) << "all_reduce leaves them";
    }
  });
}

TEST_P(Multigpu, TheTensorsOfARankAreCombinedFirst) {
  in_world([&](ProcessGroup& world) {
    std::vector<Tensor> mine;
    for (const float value : {1e8F, 1.0F, -1e8F}) {  // as floats 1e8 + 1 is 1e8
      const Values bits(3, std::bit_cast<std::int32_t>(value));
      mine.push_back(tensor(bits, mine.size()));
    }
    std::vector<TensorView> floats;
    for (const TensorView& view : views(mine)) {
      floats.emplace_back(view.data(), DType::float32, view.shape(), view.strides(), view.device());
    }
    world.all_reduce_multigpu(floats).wait();
    for (Tensor& one : mine) EXPECT_EQ(one.now(), Values(3, 0));
  });
}

TEST_P(Multigpu, FollowsAStreamForEachTensor) {
  if (GetParam().gpus == 0) return;  // the CPU has none
  in_world([&](ProcessGroup& world) {
    std::vector<Tensor> mine = list(world.rank(), 2, 5);
    std::vector<Tensor> rows = rows_of(world, 2, 5);
    std::vector<std::uintptr_t> streams;
    for (Tensor& one : mine) streams.push_back(one.make_stream());
    world.all_reduce_multigpu(views(mine), {.streams = streams}).wait();
    for (Tensor& one : mine) EXPECT_EQ(one.now()[4], sum_of(world.size(), 2, 5, 4));
    for (Tensor& one : rows) streams.push_back(one.make_stream());
    world.all_gather_multigpu(views(rows), views(mine), {.streams = streams}).wait();
    for (Tensor& one : rows) EXPECT_EQ(one.now()[4], sum_of(world.size(), 2, 5, 4));
  });
}

TEST_P(Multigpu, WhatIsWrongIsToldAtTheCall) {
  in_world([&](ProcessGroup& world) {
    std::vector<Tensor> pair = list(world.rank(), 2, 4);
    const std::vector<TensorView> two = views(pair);
    const auto refused = [](const std::function<Work()>& call, const char* text) {
      const Outcome error = error_of<InvalidArgument>([&] { call().wait(); });
      EXPECT_THAT(error.message(), testing::HasSubstr(text));
    };
    refused([&] { return world.all_reduce_multigpu({}); }, "the list of tensors is empty");
    refused([&] { return world.broadcast_multigpu(two, {.root_tensor = 2}); },
            "root_tensor is 2; the list has 2 tensors");
    refused([&] { return world.reduce_multigpu(two, {.root = 9}); }, "root 9 is not in the group");
    refused([&] { return world.all_reduce_multigpu(two, {.op = ReduceOp::premul_sum}); },
            "pre-multiplied");
    refused([&] { return world.all_gather_multigpu(two, two); }, "2 outputs; it must have");
    const std::vector<TensorView> twice{two[0], two[0]};
    refused([&] { return world.all_reduce_multigpu(twice); }, "overlap");
    std::vector<Tensor> odd = list(0, 1, 5);
    const std::vector<TensorView> sizes{two[0], odd[0].view()};
    refused([&] { return world.all_reduce_multigpu(sizes); }, "the tensor 1 has 5 elements, not 4");
    const std::vector<TensorView> mixed{
        two[0], TensorView(two[1].data(), DType::float32, two[1].shape(), two[1].strides(),
                           two[1].device())};
    refused([&] { return world.all_reduce_multigpu(mixed); }, "must have one dtype");
    const std::vector<TensorView> many(65, two[0]);
    refused([&] { return world.all_reduce_multigpu(many); }, "at most 64");
    refused([&] { return world.all_reduce_multigpu(two, {.timeout = std::chrono::seconds(0)}); },
            "timeout");
    if (GetParam().gpus > 0) {
      const std::uintptr_t one[] = {0};
      refused([&] { return world.all_reduce_multigpu(two, {.streams = one}); },
              "1 streams for 2 tensors");
      Values values(4);
      const std::vector<TensorView> apart{two[0], TensorView(values)};
      refused([&] { return world.all_reduce_multigpu(apart); },
              "all must be on GPUs, or all on the CPU");
    }
    if (GetParam().gpus > 1) {
      const StreamGuard guard(0x70);
      refused([&] { return world.all_reduce_multigpu(two); }, "give a stream for each tensor");
    }
    EXPECT_TRUE(world.health().ok());
    world.all_reduce_multigpu(two).wait();
  });
}

/// With a GPU of rank 1 that has no large memory (TUTTI_TEST_FULL_GPU_RANK): the others do not
/// wait.
class FullGpu : public Multigpu {};

TEST_P(FullGpu, BreaksTheGroupAtOnce) {
  in_world([&](ProcessGroup& world) {
    constexpr std::size_t kCount = std::size_t{1} << 19;  // 2 MiB; three of them are too much
    std::vector<Tensor> mine = list(0, 3, kCount);
    std::vector<Tensor> rows;
    for (std::size_t i = 0; i < 9 * static_cast<std::size_t>(world.size()); ++i)
      rows.push_back(tensor(Values(kCount, -1), 0));
    const auto begun = std::chrono::steady_clock::now();
    const Outcome error =
        error_of<Error>([&] { world.all_gather_multigpu(views(rows), views(mine)).wait(); });
    EXPECT_THAT(error.message(), testing::HasSubstr("cuMemAllocAsync failed"));
    EXPECT_EQ(error.culprit(), 1);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kForever / 2);
    EXPECT_FALSE(world.health().ok());
  });
}

std::vector<Where> places() {
  std::vector<Where> all{{"Cpu", 0}};
  const int count = gpus_of_driver();
  if (count > 0) all.push_back({"OneGpu", 1});
  if (count > 1) all.push_back({"SeveralGpus", count});
  return all;
}

INSTANTIATE_TEST_SUITE_P(, Multigpu, testing::ValuesIn(places()),
                         [](const testing::TestParamInfo<Where>& one) { return one.param.name; });

std::vector<Where> full() {
  if (std::getenv("TUTTI_TEST_FULL_GPU_RANK") == nullptr) return {};
  return {{"OneGpu", 1}};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullGpu);
INSTANTIATE_TEST_SUITE_P(, FullGpu, testing::ValuesIn(full()),
                         [](const testing::TestParamInfo<Where>& one) { return one.param.name; });

}  // namespace
}  // namespace tutti::test
