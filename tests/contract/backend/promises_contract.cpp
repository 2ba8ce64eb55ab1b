#include "backend_contract.hpp"

#include <tutti/backend/group_access.hpp>

#include "contract/group/reduced_values.hpp"
#include "support/any_order.hpp"

namespace tutti::test {
namespace {

/// The sum of all ranks' columns of values, by all_reduce; one column is what the ranks add.
template <class T>
std::vector<T> summed(ProcessGroup& world, const std::vector<std::vector<T>>& columns) {
  std::vector<T> mine;
  for (const std::vector<T>& column : columns)
    mine.push_back(column[static_cast<std::size_t>(world.rank())]);
  world.all_reduce(TensorView(mine.data(), kernels::testing::dtype<T>(), mine.size())).wait();
  return mine;
}
/// A large value, the same one negative, and small ones, in every order: in one of them each way
/// of adding loses a small one.
template <class T>
std::vector<std::vector<T>> cancelling(int ranks, T large, T negative, T small) {
  std::vector<std::vector<T>> columns;
  for (int first = 0; first < ranks; ++first) {
    for (int second = 0; second < ranks; ++second) {
      if (first == second) continue;
      std::vector<T> column(static_cast<std::size_t>(ranks), small);
      column[static_cast<std::size_t>(first)] = large;
      column[static_cast<std::size_t>(second)] = negative;
      columns.push_back(std::move(column));
    }
  }
  return columns;
}

}  // namespace

// Promises that some backends make and others do not: each declares it (PromiseRow), and here the
// declaration decides what is expected. A backend that keeps less than it says fails; one that
// keeps more than it says does where that shows on every machine.

TEST_P(BackendContractOfSeveral, SumsHaveOneOrder) {
  run([](ProcessGroup& world) {
    // As many as a backend needs to divide them, each part in another order.
    std::vector<std::vector<float>> columns;
    while (columns.size() < 30'000) {
      for (auto& column : cancelling<float>(world.size(), 1e8F, -1e8F, 1.25F))
        columns.push_back(std::move(column));
    }
    const std::vector<float> found = summed(world, columns);
    const bool promised = keeps(Promise::same_bits);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (promised) {
        ASSERT_EQ(found[i], kernels::testing::tree<float>(ReduceOp::sum, columns[i])) << i;
      } else if (world.size() <= 5 && i % 97 == 0) {  // there are (2n - 3)!! orders of n values
        ASSERT_THAT(in_any_order<float>(ReduceOp::sum, columns[i]), testing::Contains(found[i]));
      }
    }
  });
}

TEST_P(BackendContractOfSeveral, NarrowSumsAreRoundedOnce) {
  run([](ProcessGroup& world) {
    using kernels::testing::Brain;
    using kernels::testing::narrowed;
    const auto columns =
        cancelling(world.size(), narrowed<Brain>(1024), narrowed<Brain>(-1024), narrowed<Brain>(1));
    const std::vector<Brain> found = summed(world, columns);
    bool once = true;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      once = once && same_value(found[i], kernels::testing::tree<Brain>(ReduceOp::sum, columns[i]));
    }
    // Two values are added in one step.
    EXPECT_EQ(once, world.size() == 2 || keeps(Promise::narrow_rounded_once));
  });
}

TEST_P(BackendContractOfSeveral, ATimeoutFreesTheTensors) {
  run([](ProcessGroup& world) {
    meet(world);
    if (world.rank() != 0) {  // takes nothing
      (void)breaks_soon(world);
      return;
    }
    const std::size_t bytes = GetParam().waiting_message;
    // Kept until the process ends, as the error asks: MPI still reads it.
    static auto* const kept = new std::vector<std::unique_ptr<std::byte[]>>;
    kept->push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    Work work = world.isend(TensorView(kept->back().get(), DType::uint8, bytes), 1,
                            {.timeout = std::chrono::milliseconds(200)});
    try {
      work.wait();
      EXPECT_TRUE(GetParam().takes_any_message()) << "no error";
      world.abort("nobody takes it");
    } catch (const TimeoutError& error) {
      const bool frees = std::string_view(error.what()).find("keep them") == std::string_view::npos;
      EXPECT_EQ(frees, keeps(Promise::timeout_frees_tensors)) << error.what();
      EXPECT_NE(error.status().tensors_in_use(), frees);
    }
  });
}

TEST_P(BackendContractOfSeveral, AMessageThatIsTooLongIsAnError) {
  run([](ProcessGroup& world) {
    // Where only short ones are safe: what every MPI sends at once.
    const std::size_t more = keeps(Promise::lengths_compared) ? std::size_t{1} << 20 : 1;
    std::vector<float> sent(3 + more, 1);
    std::vector<float> got(3, 0);
    if (world.rank() == 0) {
      Work work = world.isend(sent, 1);
      ASSERT_TRUE(breaks_soon(world));
    } else if (world.rank() == 1) {
      EXPECT_THROW((void)world.recv(got, 0), Error);
    } else {
      ASSERT_TRUE(breaks_soon(world));
    }
    EXPECT_FALSE(world.health().ok());
  });
}

TEST_P(BackendContractOfSeveral, ARecvOfAnotherDtypeIsAnError) {
  run([](ProcessGroup& world) {
    const bool promised = keeps(Promise::dtypes_compared);
    std::vector<float> sent(3, 1);
    std::vector<std::int32_t> got(3, 0);
    if (GroupAccess::backend(world).capabilities().probe) {
      if (world.rank() == 0) world.send(sent, 1);
      if (world.rank() == 1) {
        Message found = world.probe(0);
        EXPECT_EQ(found.dtype(), promised ? DType::float32 : DType::uint8);
        EXPECT_EQ(found.bytes(), 12U);
        std::vector<std::uint8_t> bytes(12);
        if (promised) {
          EXPECT_THROW(found.recv(got), InvalidArgument);
          EXPECT_THROW(found.recv(bytes), InvalidArgument);
        }
        EXPECT_EQ(found.recv<float>(), sent);
      }
    }
    Work work;
    if (world.rank() == 0) work = world.isend(sent, 1);
    if (world.rank() == 1 && promised) {
      EXPECT_THROW((void)world.recv(got, 0), Error);
    } else if (world.rank() == 1) {
      EXPECT_EQ(world.recv(got, 0), 0);
      EXPECT_EQ(got[0], 0x3f800000);
    }
    if (promised) {
      EXPECT_TRUE(breaks_soon(world));
    } else {
      if (world.rank() == 0) work.wait();
      expect_usable(world);
    }
  });
}

TEST_P(BackendContractOfSeveral, AReceiveThatIsLateFreesItsTensor) {
  run([](ProcessGroup& world) {
    meet(world);
    std::vector<float> got(3, 0);
    if (world.rank() != 0) {  // sends nothing
      ASSERT_TRUE(breaks_soon(world));
      EXPECT_THROW(world.send(got, 0), TimeoutError);
      return;
    }
    const Outcome error = error_of<TimeoutError>(
        [&] { (void)world.recv(got, 1, {.timeout = std::chrono::milliseconds(100)}); });
    EXPECT_EQ(error.culprit(), 1) << error.message();
    if (GetParam().backend == "native") {  // others may tell what was left of it
      EXPECT_THAT(error.message(), testing::HasSubstr("timeout 0.1 s"));
    }
    EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("keep them")));
    EXPECT_FALSE(error.tensors_in_use());
  });
}

TEST_P(BackendContract, MessagesTakeAnyTag) {
  run([](ProcessGroup& world) {
    bool any = true;
    // Beyond what some MPI has, and the largest.
    for (const int tag : {0, 0x6fffffff, 0x7fffffff}) {
      std::vector<int> sent{world.rank()};
      std::vector<int> got(1, -1);
      Work receives = world.irecv(got, before(world), {.tag = tag});
      Work sends = world.isend(sent, after(world), {.tag = tag});
      try {
        sends.wait();
        receives.wait();
        EXPECT_EQ(got[0], before(world));
      } catch (const BackendError& error) {  // told to the caller alone
        any = false;
        EXPECT_GT(tag, 0);
        EXPECT_THAT(error.what(), testing::HasSubstr("tag " + std::to_string(tag)));
        EXPECT_THROW(receives.wait(), BackendError);
      }
    }
    EXPECT_EQ(any, keeps(Promise::all_tags));
    // NCCL has no recv of messages with any tag, and takes none back.
    std::vector<int> got(1, -1);
    std::vector<int> sent{world.rank()};
    const RecvOptions with_any{.tag = any_tag};
    const std::string& backend = GetParam().backend;
    const bool nccl = backend.find("nccl") != backend.npos;
    if (nccl) {
      EXPECT_THAT(error_of<InvalidArgument>([&] { (void)world.irecv(got, 0, with_any); }).message(),
                  testing::HasSubstr("no any_tag"));
    } else {
      Work receives = world.irecv(got, before(world), with_any);
      Work sends = world.isend(sent, after(world), {.tag = 77});
      sends.wait();
      receives.wait();
      EXPECT_EQ(got[0], before(world));
      EXPECT_EQ(receives.tag(), 77);
      // The messages that a collective is made of are none of them.
      Work open = world.irecv(got, any_source, with_any);
      const std::vector<int> mine(static_cast<std::size_t>(world.rank()) + 1, world.rank());
      const Blocks<int> all = world.gather_v(mine).wait();
      EXPECT_EQ(all.counts.size(), world.rank() == 0 ? static_cast<std::size_t>(world.size()) : 0u);
      world.isend(sent, after(world), {.tag = 4}).wait();
      open.wait();
      EXPECT_EQ(got[0], before(world));
      EXPECT_EQ(open.tag(), 4);
    }
    Work waits = world.irecv(got, before(world), {.tag = 78});
    const Outcome refused = error_of<InvalidArgument>([&] {
      if (waits.cancel()) raise(Outcome(Errc::invalid_argument, "cancelled"));
    });
    const bool cancelled = refused.message() == "cancelled";
    EXPECT_EQ(cancelled, !waits.valid());
    EXPECT_TRUE(cancelled || backend.find("mpi") == backend.npos);
    if (cancelled) {
      got[0] = -1;
      world.barrier().wait();
      Work sends = world.isend(sent, after(world), {.tag = 78});
      EXPECT_EQ(world.recv(got, any_source, {.tag = 78}), before(world));
      sends.wait();
      EXPECT_EQ(got[0], before(world));
    } else {  // then it gets its message
      EXPECT_THAT(refused.message(), testing::HasSubstr("cannot"));
      world.send(sent, after(world), {.tag = 78});
      waits.wait();
    }
    expect_usable(world);
  });
}

}  // namespace tutti::test
