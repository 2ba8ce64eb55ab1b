#include "backend_contract.hpp"

#include <deque>

#include <tutti/backend/group_access.hpp>
#include <tutti/objects.hpp>

#include "base/call_purpose.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/object_head.hpp"

namespace tutti::test {

/// A type of a program's, and one that has its name and other bytes.
struct Setting {
  std::string text;
  std::vector<std::uint16_t> numbers;
  bool operator==(const Setting&) const = default;
};
struct Impostor {
  std::string bytes;
};
/// One that moves as bytes.
struct Line {
  std::int64_t place;
  double value;
  bool operator==(const Line&) const = default;
};

}  // namespace tutti::test

template <>
struct tutti::serialise<tutti::test::Setting> {
  static constexpr std::string_view name = "Setting";
  static std::vector<char> to_bytes(const test::Setting& one) {
    if (one.text == "unspeakable") throw std::domain_error("no words for it");
    std::vector<char> bytes(one.text.begin(), one.text.end());
    bytes.push_back(0);
    for (const std::uint16_t number : one.numbers) {
      bytes.push_back(static_cast<char>(number & 0xff));
      bytes.push_back(static_cast<char>(number >> 8));
    }
    return bytes;
  }
  static test::Setting from_bytes(std::span<const std::byte> bytes) {
    const auto end = std::ranges::find(bytes, std::byte(0));
    if (end == bytes.end()) throw std::domain_error("the text has no end");
    test::Setting one;
    for (auto at = bytes.begin(); at != end; ++at) one.text += static_cast<char>(*at);
    const auto rest = bytes.subspan(one.text.size() + 1);
    if (rest.size() % 2 != 0) throw std::domain_error("half a number");
    for (std::size_t i = 0; i < rest.size(); i += 2) {
      one.numbers.push_back(static_cast<std::uint16_t>(
          std::to_integer<unsigned>(rest[i]) | std::to_integer<unsigned>(rest[i + 1]) << 8));
    }
    return one;
  }
};
template <>
struct tutti::serialise<tutti::test::Impostor> {
  static constexpr std::string_view name = "Setting";
  static std::string to_bytes(const test::Impostor& one) { return one.bytes; }
  static test::Impostor from_bytes(std::span<const std::byte> /*bytes*/) { return {}; }
};

namespace tutti::test {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendContractOfSeveral);

// ---- Operations

TEST_P(BackendContract, EveryOperationIsRight) {
  run([](ProcessGroup& world) {
    EXPECT_EQ(world.size(), size());
    const std::size_t large = kSanitized ? 1001 : 6001;  // beyond what is done in one stride
    for (const std::size_t count : {std::size_t{1}, std::size_t{64}, large})
      make_every_call<float>(world, count);
    make_every_call<std::int64_t>(world, 500);
  });
}

TEST_P(BackendContract, EveryOperationTakesStridedViews) {
  run([](ProcessGroup& world) {
    make_every_call<double>(world, 3, true);
    make_every_call<std::int32_t>(world, 4000, true);
    // On one rank only. From 64 KiB on Open MPI has several algorithms.
    const std::size_t count = GetParam().backend == "mpi" ? 20'000 : 1001;
    make_every_call<float>(world, count, world.rank() == 0);
  });
}

TEST_P(BackendContract, EveryOperationTakesZeroElements) {
  run([](ProcessGroup& world) {
    make_every_call<float>(world, 0);
    make_every_call<float>(world, 0, true);
    expect_usable(world);
  });
}

/// Element i of what one rank gives to another; some blocks have no elements.
std::size_t learned_count(int from, int to, std::size_t most) {
  return (static_cast<std::size_t>(from) * 7 + static_cast<std::size_t>(to) * 3) % 4 * most;
}
std::int64_t learned_value(int from, int to, std::size_t i) {
  return from * 1'000'000'000L + to * 1'000'000L + static_cast<std::int64_t>(i);
}
void expect_blocks(const Blocks<std::int64_t>& blocks, const ProcessGroup& group, std::size_t most,
                   bool own_blocks) {
  ASSERT_EQ(blocks.counts.size(), static_cast<std::size_t>(group.size()));
  std::size_t end = 0;
  for (int r = 0; r < group.size(); ++r) {
    const int to = own_blocks ? group.rank() : 0;
    const auto at = static_cast<std::size_t>(r);
    EXPECT_EQ(blocks.counts[at], learned_count(r, to, most));
    EXPECT_EQ(blocks.displacements[at], end);
    end += blocks.counts[at];
    for (std::size_t i = 0; i < blocks.counts[at]; ++i)
      ASSERT_EQ(blocks[r][i], learned_value(r, to, i)) << "rank " << r << ", element " << i;
  }
  EXPECT_EQ(blocks.values.size(), end);
}

TEST_P(BackendContract, LearnsTheSizesOfBlocks) {
  run([](ProcessGroup& world) {
    for (const std::size_t most : {std::size_t{0}, std::size_t{1}, std::size_t{3000}}) {
      std::vector<std::int64_t> mine(learned_count(world.rank(), 0, most));
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = learned_value(world.rank(), 0, i);
      std::vector<std::size_t> sends;
      std::vector<std::int64_t> exchanged;
      for (int to = 0; to < world.size(); ++to) {
        sends.push_back(learned_count(world.rank(), to, most));
        for (std::size_t i = 0; i < sends.back(); ++i)
          exchanged.push_back(learned_value(world.rank(), to, i));
      }
      // All under way at once: their order is that of the calls.
      const int root = world.size() - 1;
      auto all = world.all_gather_v(mine);
      auto at_root = world.gather_v(mine, {.root = root});
      auto received = world.all_to_all_v(exchanged, sends);
      expect_blocks(received.wait(), world, most, true);
      const Blocks<std::int64_t> gathered = at_root.wait();
      if (world.rank() == root) expect_blocks(gathered, world, most, false);
      EXPECT_EQ(gathered.counts.empty(), world.rank() != root);
      EXPECT_TRUE(world.rank() == root || gathered.values.empty());
      expect_blocks(all.wait(), world, most, false);
      EXPECT_TRUE(all.done());
      EXPECT_THROW((void)all.wait(), InvalidArgument);
      // Dropped: the memory lives until the operation is done. Assigned: so does the old one's.
      (void)world.all_gather_v(mine);
      auto again = world.all_gather_v(mine);
      again = world.all_gather_v(mine);
      expect_blocks(again.wait(), world, most, false);
    }
    // Mistakes are told before anything is sent.
    std::vector<std::int64_t> four(4);
    const std::vector<std::size_t> one(static_cast<std::size_t>(world.size()) + 1, 0);
    EXPECT_THROW((void)world.gather_v(four, {.root = world.size()}), InvalidArgument);
    EXPECT_THROW((void)world.all_gather_v(four, {.output_counts = one}), InvalidArgument);
    EXPECT_THROW((void)world.all_to_all_v(four, one), InvalidArgument);
    EXPECT_THROW((void)world.all_to_all_v(four, std::span(one).subspan(1)), InvalidArgument);
    expect_usable(world);
  });
}

/// An object of a rank, of about so many bytes.
Setting setting_of(int rank, std::size_t bytes) {
  Setting one{"of rank " + std::to_string(rank), std::vector<std::uint16_t>(bytes / 2)};
  std::iota(one.numbers.begin(), one.numbers.end(), static_cast<std::uint16_t>(rank * 1000));
  return one;
}

/// False: the group takes no tensors of the host, and has said so.
bool moves_objects(ProcessGroup& world) {
  std::string text;
  Collective call;
  call.kind = Kind::send;
  call.input.read_only() = ConstTensorView(text.data(), DType::uint8, 0);
  if (GroupAccess::backend(world).unsupported(call).empty()) return true;
  EXPECT_THROW((void)world.all_gather_object(text), InvalidArgument);
  return false;
}

TEST_P(BackendContract, MovesObjectsWhoseSizesTheReceiversLearn) {
  run([](ProcessGroup& world) {
    if (!moves_objects(world)) return;
    const int rank = world.rank();
    const int last = world.size() - 1;
    const auto ranks = static_cast<std::size_t>(world.size());
    // Around the 488 bytes that travel with the size, and beyond what a send does not wait for.
    for (const std::size_t size : {0, 10, 487, 488, 489, 5000, kSanitized ? 70'000 : 300'000}) {
      std::string text(rank == last ? size : 7, static_cast<char>('a' + rank));
      world.broadcast_object(text, {.root = last});
      EXPECT_EQ(text, std::string(size, static_cast<char>('a' + last)));
      std::vector<Line> lines(rank == 0 ? size / sizeof(Line) : 3, Line{rank + 1, 0.5});
      world.broadcast_object(lines);
      EXPECT_EQ(lines, std::vector<Line>(size / sizeof(Line), Line{1, 0.5}));

      // The last rank's object is large, or all are.
      for (const bool all : {false, true}) {
        const auto bytes_of = [&](int r) { return all || r == last ? size : 12; };
        std::vector<Setting> expected;
        for (int r = 0; r <= last; ++r) expected.push_back(setting_of(r, bytes_of(r)));
        const Setting& mine = expected[static_cast<std::size_t>(rank)];
        EXPECT_EQ(world.all_gather_object(mine), expected);
        const std::vector<Setting> gathered = world.gather_object(mine, {.root = last});
        EXPECT_EQ(gathered, rank == last ? expected : std::vector<Setting>());
        const std::vector<Setting> given = rank == 0 ? expected : std::vector<Setting>();
        EXPECT_EQ(world.scatter_object(given), mine);
      }
    }
    EXPECT_EQ(world.all_gather_object(rank * 2).back(), last * 2);
    std::vector<bool> truths(ranks, true);
    EXPECT_TRUE(world.scatter_object(truths, {.root = last}));

    if (GroupAccess::backend(world).capabilities().probe) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{900}, std::size_t{200'000}}) {
        if (world.size() == 1 && size > 60'000) continue;  // it would wait for itself
        const bool first = rank % 2 == 0;
        const SendOptions tagged{.tag = 3};
        const bool any = size == 900 && world.backend() == "native";
        if (first) world.send_object(setting_of(rank, size), after(world), tagged);
        Setting came;
        const int source = size == 0 ? before(world) : any_source;
        EXPECT_EQ(world.recv_object(came, source, {.tag = any ? any_tag : 3}), before(world));
        EXPECT_EQ(came, setting_of(before(world), size));
        if (!first) world.send_object(setting_of(rank, size), after(world), tagged);
        world.barrier().wait();
      }
    }
    Setting kept = setting_of(rank, 2);
    EXPECT_EQ(world.recv_object(kept, no_rank), no_rank);
    world.send_object(kept, no_rank);
    EXPECT_EQ(kept, setting_of(rank, 2));

    // Mistakes are told before anything is sent.
    const std::vector<std::size_t> counts(ranks, 1);
    EXPECT_THROW(world.broadcast_object(kept, {.root = world.size()}), InvalidArgument);
    EXPECT_THROW((void)world.gather_object(1, {.output_counts = counts}), InvalidArgument);
    EXPECT_THROW((void)world.all_gather_object(1, {.timeout = std::chrono::seconds(-1)}),
                 InvalidArgument);
    EXPECT_THROW((void)world.scatter_object(std::vector<int>(ranks + 1), {.root = rank}),
                 InvalidArgument);
    EXPECT_THROW(world.send_object(kept, world.size()), InvalidArgument);
    EXPECT_THROW(world.recv_object(kept, 0, {.tag = -5}), InvalidArgument);
    expect_usable(world);
  });
}

TEST_P(BackendContract, ManyAreUnderWayAndEndInAnyOrder) {
  run([](ProcessGroup& world) {
    std::vector<std::unique_ptr<PreparedCall<float>>> calls;
    std::vector<Work> works;
    for (int round = 0; round < 2; ++round) {
      for (const Operation& operation : operations()) {
        if (operation.kind == Kind::new_group || operation.kind == Kind::send) continue;
        const std::size_t count = round == 0 ? 5 : 3000;
        calls.push_back(std::make_unique<PreparedCall<float>>(
            plan_of(operation, {.count = count}, world.rank(), world.size())));
        works.push_back(calls.back()->start(world));
      }
    }
    // Some ranks wait for the first one first, some for the last one.
    std::vector<std::size_t> order(works.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (world.rank() % 2 == 0) std::reverse(order.begin(), order.end());
    for (const std::size_t i : order) {
      works[i].wait();
      EXPECT_EQ(calls[i]->wrong(), 0U) << calls[i]->text();
    }
  });
}

TEST_P(BackendContract, MessagesArriveInOrderAndTellTheirSender) {
  run([](ProcessGroup& world) {
    std::vector<int> sent{1, 2, 3};
    std::vector<int> got(3);
    std::vector<Work> works;
    for (std::size_t i = 0; i < 3; ++i)
      works.push_back(world.isend(std::span(sent).subspan(i, 1), after(world), {.tag = 5}));
    std::vector<int> other{9};
    works.push_back(world.isend(other, after(world), {.tag = 6}));
    std::vector<int> tagged(1);
    EXPECT_EQ(world.recv(tagged, before(world), {.tag = 6}), before(world));
    EXPECT_EQ(tagged[0], 9);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(
          world.recv(std::span(got).subspan(i, 1), i == 1 ? any_source : before(world), {.tag = 5}),
          before(world));
    }
    EXPECT_EQ(got, sent);
    wait_all(works);
  });
}

/// Of sizes that wait for their recv, and of one that need not.
TEST_P(BackendContract, LargeMessagesFindTheirRecvs) {
  run([](ProcessGroup& world) {
    const std::vector<std::size_t> sizes{100'000, 16'384, 16'385, 70'001};
    std::vector<std::vector<int>> out;
    std::vector<std::vector<int>> in;
    std::vector<Work> works;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      out.emplace_back(sizes[i]);
      std::iota(out[i].begin(), out[i].end(), 1000 * world.rank() + static_cast<int>(i));
      in.emplace_back(sizes[i], -1);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i)
      works.push_back(world.isend(out[i], after(world), {.tag = static_cast<int>(i)}));
    for (std::size_t i = sizes.size(); i-- > 0;) {
      const int source = i % 2 == 0 ? before(world) : any_source;
      works.push_back(world.irecv(in[i], source, {.tag = static_cast<int>(i)}));
    }
    wait_all(works);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<int> right(sizes[i]);
      std::iota(right.begin(), right.end(), 1000 * before(world) + static_cast<int>(i));
      EXPECT_EQ(in[i], right) << sizes[i];
    }
  });
}

// ---- Tickets: the interface itself

TEST_P(BackendContract, ATicketTellsItsEndAsOftenAsItIsAsked) {
  run([](ProcessGroup& world) {
    Backend& backend = GroupAccess::backend(world);
    EXPECT_EQ(backend.rank(), world.rank());
    EXPECT_EQ(backend.size(), world.size());
    EXPECT_FALSE(backend.name().empty());
    for (int r = 0; r < world.size(); ++r) EXPECT_FALSE(backend.location(r).empty());
    for (const bool asynchronous : {false, true}) {
      std::vector<int> values(100, 1);
      Collective call;
      call.kind = Kind::all_reduce;
      call.timeout = kForever;
      call.input = call.output = TensorView(values);
      ASSERT_EQ(backend.unsupported(call), "");
      const Pending pending = backend.submit(call, asynchronous);
      Outcome outcome;
      const auto until = std::chrono::steady_clock::now() + kForever;
      while (!pending.wait(std::chrono::milliseconds(1), outcome))
        ASSERT_LT(std::chrono::steady_clock::now(), until);
      EXPECT_TRUE(outcome.ok()) << outcome.message();
      EXPECT_TRUE(pending.wait(std::nullopt, outcome));
      const std::optional<Outcome> polled = pending.poll();
      ASSERT_TRUE(polled.has_value());
      EXPECT_TRUE(polled->ok());
      EXPECT_EQ(pending.received().source, -1);
      EXPECT_EQ(pending.release().source, -1);
      EXPECT_EQ(values, std::vector<int>(100, world.size()));
    }
  });
}

TEST_P(BackendContract, CallsBackOnceThoughNobodyWaits) {
  run([](ProcessGroup& world) {
    Heard before;
    Heard after;
    std::vector<int> values(10, 1);
    Work work = world.all_reduce(values);
    work.on_done(before.callback());
    before.wait();
    EXPECT_EQ(values, std::vector<int>(10, world.size()));
    work.on_done(after.callback());  // it is done already
    after.wait();
    work.wait();
    world.barrier().wait();
    for (const Heard* const one : {&before, &after}) {
      EXPECT_EQ(one->times, 1);
      EXPECT_TRUE(one->status.ok());
    }
  });
}

// ---- The caller's mistakes

TEST_P(BackendContract, MistakesAreToldAtTheCallAndHarmNothing) {
  run([](ProcessGroup& world) {
    std::vector<float> data(4, 1);
    const int beyond = world.size();
    EXPECT_THROW((void)world.broadcast(data, {.root = beyond}), InvalidArgument);
    EXPECT_THROW((void)world.broadcast(data, {.root = -1}), InvalidArgument);
    EXPECT_THROW((void)world.isend(data, beyond), InvalidArgument);
    EXPECT_THROW((void)world.irecv(data, beyond), InvalidArgument);
    EXPECT_THROW((void)world.isend(data, 0, {.tag = -1}), InvalidArgument);
    EXPECT_THROW((void)world.all_reduce(data, {.timeout = std::chrono::seconds(0)}),
                 InvalidArgument);
    EXPECT_THROW((void)world.all_reduce(data, {.op = ReduceOp::band}), InvalidArgument);
    EXPECT_THROW((void)world.all_reduce(TensorView(nullptr, DType::float32, 4)), InvalidArgument);
    std::vector<float> odd(4 * static_cast<std::size_t>(world.size()) + 1);
    EXPECT_THROW((void)world.all_gather(odd, data), InvalidArgument);
    EXPECT_THROW((void)world.new_group({0, 0}), InvalidArgument);
    EXPECT_THROW((void)world.new_group({beyond}), InvalidArgument);
    EXPECT_THROW((void)world.new_group(std::span<const int>()), InvalidArgument);
    const NewGroupOptions at_once{.timeout = std::chrono::seconds(0)};
    EXPECT_THROW((void)world.new_group({0}, at_once), InvalidArgument);
    EXPECT_THROW((void)world.split(0, 0, at_once), InvalidArgument);
    EXPECT_THROW((void)world.new_subgroups(1, at_once), InvalidArgument);
    EXPECT_THROW((void)world.new_subgroups(world.size() + 1), InvalidArgument);
    EXPECT_THROW((void)world.global_rank(beyond), InvalidArgument);
    EXPECT_EQ(data, std::vector<float>(4, 1));
    expect_usable(world);
  });
}

/// Where the tensors of a call are is the caller's to know; on which device, the call tells.
TEST_P(BackendContract, TensorsOfADeviceThatItDoesNotTakeAreToldAtTheCall) {
  if (!GetParam().foreign) return;
  run([device = *GetParam().foreign](ProcessGroup& world) {
    const auto ranks = static_cast<std::size_t>(world.size());
    std::vector<float> memory(9 * ranks);
    const auto view = [&](std::size_t first, std::size_t count) {
      return TensorView(memory.data() + first, DType::float32, count, device);
    };
    const auto out = [&](std::size_t count) { return view(0, count); };
    const auto in = [&](std::size_t count) { return view(4 * ranks, count); };
    const auto refused = [&](const auto& call) {
      const Outcome error = error_of<InvalidArgument>([&] { call(); });
      EXPECT_THAT(error.message(), testing::HasSubstr(to_string(device)));
      EXPECT_THAT(error.message(), testing::HasSubstr(std::string(world.backend())));
      EXPECT_THAT(error.message(),
                  testing::ContainsRegex("the (input|output) is in the memory of"));
    };
    const int me = world.rank();
    refused([&] { (void)world.all_reduce(out(4)); });
    refused([&] { (void)world.broadcast(out(4)); });
    refused([&] { (void)world.reduce(out(4)); });
    refused([&] { (void)world.all_gather(out(4 * ranks), in(4)); });
    refused([&] { (void)world.gather(out(4 * ranks), in(4), {.root = me}); });
    if (world.size() > 1) {  // not the root
      refused([&] { (void)world.gather(TensorView(), in(4), {.root = (me + 1) % world.size()}); });
    }
    refused([&] { (void)world.scatter(out(4), in(4 * ranks), {.root = me}); });
    refused([&] { (void)world.reduce_scatter(out(4), in(4 * ranks)); });
    refused([&] { (void)world.all_to_all(out(2 * ranks), in(2 * ranks)); });
    std::vector<TensorView> list;
    for (std::size_t r = 0; r < ranks; ++r) list.push_back(view(r, 1));
    refused([&] { (void)world.all_gather(list, in(1)); });
    refused([&] { (void)world.all_reduce_coalesced(std::array{out(2), in(3)}); });
    refused([&] { (void)world.isend(in(4), me); });
    refused([&] { (void)world.irecv(out(4), me); });
    expect_usable(world);
  });
}

TEST_P(BackendContract, TensorsOfOneCallMustBeOnOneDevice) {
  run([device = GetParam().foreign.value_or(Device{DeviceType::cuda, 1})](ProcessGroup& world) {
    std::vector<float> input(4);
    std::vector<float> memory(4 * static_cast<std::size_t>(world.size()));
    const TensorView output(memory.data(), DType::float32, memory.size(), device);
    const Outcome error =
        error_of<InvalidArgument>([&] { (void)world.all_gather(output, TensorView(input)); });
    EXPECT_THAT(error.message(), testing::HasSubstr("the output is in the memory of " +
                                                    to_string(device) + ", not of cpu"));
    expect_usable(world);
  });
}

// ---- Ends

TEST_P(BackendContract, AnAbortBreaksTheGroupOnAllRanksAndNoOther) {
  run([](ProcessGroup& world) {
    ProcessGroup group = world.new_subgroups(world.size());
    std::vector<int> values(10);
    const int last = world.size() - 1;
    const auto expect_aborted = [](const Outcome& why) {
      EXPECT_EQ(why.code(), Errc::aborted) << why.message();
      EXPECT_THAT(std::string(why.message()), testing::HasSubstr("enough of it"));
    };
    if (world.rank() == last) {
      group.abort("enough of it");
    } else {
      Work work = group.all_reduce(values);  // waits for the one who will not come
      EXPECT_THROW(work.wait(), BackendError);
      expect_aborted(work.error());
    }
    expect_aborted(group.health());
    // At once: the first cause is kept.
    Work later = group.barrier();
    EXPECT_THROW(later.wait(), BackendError);
    expect_aborted(later.error());
    group.abort("too late");
    expect_aborted(group.health());
    expect_usable(world);
  });
}

TEST_P(BackendContractOfSeveral, WhoDoesNotComeInTimeIsNamed) {
  run([](ProcessGroup& world) {
    ProcessGroup signs = world.new_subgroups(world.size());
    std::vector<int> sign(1);
    if (world.rank() == 1) {  // stays away until the others have given up
      ASSERT_TRUE(breaks_soon(world));
      EXPECT_THROW(world.barrier().wait(), TimeoutError);
      return;
    }
    // The time of rank 0 begins when all others have called: so no slow rank can be named instead.
    const bool hurries = world.rank() == 0;
    for (int r = 2; hurries && r < world.size(); ++r) signs.recv(sign, r);
    std::vector<float> data(4);
    Work work =
        world.all_reduce(data, {.timeout = hurries ? std::chrono::milliseconds(200) : kForever});
    if (!hurries) signs.send(sign, 0);
    const Outcome error = error_of<TimeoutError>([&] { work.wait(); });
    EXPECT_EQ(error.culprit(), 1) << error.message();
    EXPECT_THAT(error.message(), testing::HasSubstr("all_reduce"));
    EXPECT_EQ(world.health().code(), Errc::timeout);
  });
}

TEST_P(BackendContractOfSeveral, CallsThatDifferAreAnErrorOnEveryRank) {
  run([](ProcessGroup& world) {
    std::vector<float> data(64, static_cast<float>(world.rank()));
    const bool odd = world.rank() == world.size() - 1;
    const Outcome error = error_of<DisagreementError>([&] {
      world.all_reduce(std::span(data).first(odd ? 32 : 64)).wait();
      world.barrier().wait();
    });
    EXPECT_THAT(error.message(), testing::HasSubstr("x 32"));
    EXPECT_THAT(error.message(), testing::HasSubstr("x 64"));
    if (keeps(Promise::outputs_untouched)) {
      EXPECT_EQ(data, std::vector<float>(64, static_cast<float>(world.rank())));
    }
    EXPECT_EQ(world.health().code(), Errc::disagreement);
  });
}

struct Triple {
  std::int64_t values[3];
  friend bool operator==(const Triple&, const Triple&) = default;
};

TEST_P(BackendContractOfSeveral, CountsForStructsAreNumbersOfStructs) {
  run([](ProcessGroup& world) {
    const auto ranks = static_cast<std::size_t>(world.size());
    const std::int64_t mine = world.rank();
    const std::vector<std::size_t> splits(ranks, 2);
    std::vector<Triple> given(2 * ranks, Triple{{mine, mine, mine}});
    std::vector<Triple> got(2 * ranks);
    std::vector<Triple> expected;
    for (std::int64_t r = 0; r < world.size(); ++r) expected.insert(expected.end(), 2, {{r, r, r}});
    world.all_to_all(got, given, {.output_splits = splits, .input_splits = splits}).wait();
    EXPECT_EQ(got, expected);
    got.assign(2 * ranks, Triple{});
    world.all_gather(got, std::span(given).first(2), {.output_counts = splits}).wait();
    EXPECT_EQ(got, expected);
  });
}

TEST_P(BackendContractOfSeveral, BlocksOfAnotherLengthThanIsExpectedAreAnErrorOnEveryRank) {
  run([](ProcessGroup& world) {
    // Rank 0 sends everybody an element more than that one expects.
    const auto ranks = static_cast<std::size_t>(world.size());
    const std::vector<std::size_t> expects(ranks, 2);
    std::vector<std::size_t> sends(ranks, world.rank() == 0 ? 3 : 2);
    sends[0] = 2;
    std::vector<int> given(std::accumulate(sends.begin(), sends.end(), std::size_t{0}), 7);
    std::vector<int> got(2 * ranks, -1);
    const Outcome error = error_of<DisagreementError>([&] {
      world.all_to_all(got, given, {.output_splits = expects, .input_splits = sends}).wait();
      world.barrier().wait();
    });
    EXPECT_THAT(error.message(), testing::HasSubstr(" sends 3 elements to "));
    EXPECT_THAT(error.message(), testing::HasSubstr("which expects 2"));
    EXPECT_EQ(world.health().code(), Errc::disagreement);
  });
}

TEST_P(BackendContractOfSeveral, CountsThatTheRootAndAnotherRankGiveDifferentlyAreAnErrorOfBoth) {
  run([](ProcessGroup& world) {
    const int odd = world.size() - 1;
    const bool root = world.rank() == 0;
    const auto ranks = static_cast<std::size_t>(world.size());
    // MPI may use the tensors of a failed call until the other ranks have ended theirs.
    std::deque<std::vector<int>> kept;
    // The odd rank has 3 elements, and the root knows of 2. Or it gives no counts at all.
    for (const bool gives_counts : {true, false}) {
      const std::size_t own = world.rank() == odd ? 3 : 2;
      const bool silent = world.rank() == odd && !gives_counts;
      const std::vector<std::size_t> counts(silent ? 0 : root ? ranks : 1, root ? 2 : own);
      std::vector<int>& one = kept.emplace_back(own, -1);
      std::vector<int>& all = kept.emplace_back(root ? 2 * ranks : 0, -1);
      for (const Kind kind : {Kind::gather, Kind::scatter}) {
        ProcessGroup group = world.new_subgroups(world.size());
        const bool gathers = kind == Kind::gather;
        const Outcome error = error_of<DisagreementError>([&] {
          (gathers ? group.gather(all, one, {.output_counts = counts})
                   : group.scatter(one, all, {.input_counts = counts}))
              .wait();
          group.barrier().wait();
        });
        const std::string name(to_string(kind));
        const std::string odd_rank = "rank " + std::to_string(odd);
        EXPECT_THAT(error.message(), testing::HasSubstr(odd_rank)) << name;
        if (!gives_counts) {
          // With NCCL the ranks meet in the exchange of counts, which only one of them has begun.
          EXPECT_THAT(error.message(),
                      testing::AnyOf(
                          testing::AllOf(testing::HasSubstr(name + "(root 0, int32 with counts"),
                                         testing::HasSubstr(name + "(root 0, int32 x 3 per rank")),
                          testing::HasSubstr("called all_to_all(uint64 x 1 per rank)")));
        } else {
          EXPECT_THAT(error.message(), testing::HasSubstr("rank 0")) << name;
          EXPECT_THAT(error.message(), testing::HasSubstr(gathers ? " sends 3 elements to "
                                                                  : " sends 2 elements to "));
          EXPECT_THAT(error.message(),
                      testing::HasSubstr(gathers ? "which expects 2" : "which expects 3"));
        }
        EXPECT_EQ(group.health().code(), Errc::disagreement);
        EXPECT_EQ(all, std::vector<int>(all.size(), -1)) << name;
        if (world.rank() == odd) {
          EXPECT_EQ(one, std::vector<int>(own, -1)) << name;
        }
        one.assign(own, -1);
      }
    }
    world.barrier().wait();
  });
}

TEST_P(BackendContractOfSeveral, LearnedCountsAreNoGivenOnes) {
  run([](ProcessGroup& world) {
    const bool odd = world.rank() == world.size() - 1;
    const auto ranks = static_cast<std::size_t>(world.size());
    const std::vector<std::size_t> counts(ranks, 2);
    // The odd rank calls the operation that is given counts, or has another dtype.
    for (const bool learns : {false, true}) {
      ProcessGroup group = world.new_subgroups(world.size());
      std::vector<std::int32_t> mine(2);
      std::vector<float> floats(2);
      std::vector<std::int32_t> all(2 * ranks, -1);
      const Outcome error = error_of<DisagreementError>([&] {
        if (odd && learns)
          (void)group.all_gather_v(floats).wait();
        else if (odd)
          group.all_gather(all, mine, {.output_counts = counts}).wait();
        else
          (void)group.all_gather_v(mine).wait();
        group.barrier().wait();
      });
      EXPECT_THAT(error.message(), testing::HasSubstr("called all_gather_v(int32)"));
      // With NCCL the exchange of counts meets the comparison of calls.
      if (learns) {
        EXPECT_THAT(error.message(), testing::HasSubstr("called all_gather_v(float32)"));
      } else {
        EXPECT_THAT(error.message(),
                    testing::AnyOf(testing::HasSubstr("called all_gather(int32 x 2 per"),
                                   testing::HasSubstr("called all_reduce(MAX, uint64 x 2)")));
      }
      EXPECT_EQ(all, std::vector<std::int32_t>(2 * ranks, -1));
    }
    // One rank has no memory for the result, or its own trouble: the others do not wait in vain.
    for (const bool own_trouble : {false, true}) {
      ProcessGroup group = world.new_subgroups(world.size());
      std::vector<std::int32_t> mine(2);
      const auto fails = [&] {
        std::vector<std::int32_t> all;
        const MakeBlocks make = [&](std::span<const std::size_t> blocks) {
          if (odd && own_trouble) throw 42;
          if (odd) throw std::bad_alloc();
          all.resize(std::accumulate(blocks.begin(), blocks.end(), std::size_t{0}));
          return TensorView(all);
        };
        group.all_gather_v(TensorView(mine), make, {.timeout = std::chrono::seconds(10)}).wait();
      };
      if (odd && own_trouble) {
        EXPECT_THROW(fails(), int);
      } else if (odd) {
        EXPECT_THROW(fails(), std::bad_alloc);
      } else {
        EXPECT_THAT(error_of<BackendError>(fails).message(),
                    testing::HasSubstr("all_gather_v on rank"));
      }
    }
    world.barrier().wait();
  });
}

TEST_P(BackendContractOfSeveral, AnObjectThatIsNoneIsToldToItsReceivers) {
  run([](ProcessGroup& world) {
    if (!moves_objects(world)) return;
    const int last = world.size() - 1;
    const bool odd = world.rank() == last;
    const std::string sender = base::format("rank {} ", last);
    const auto refused = [&](const auto& call, const std::string& why) {
      const Outcome error = error_of<InvalidArgument>(call);
      EXPECT_EQ(error.culprit(), last);
      EXPECT_THAT(error.message(), testing::HasSubstr(sender + why + "; the group stays usable"));
    };
    const Setting before_it{"as it was", {1, 2}};
    Setting one = odd ? Setting{"unspeakable", {}} : before_it;

    // Its hook throws: its rank gets that, the receivers the reason.
    const std::string reason = "could not make bytes of its Setting: no words for it";
    const auto fails = [&](const auto& call, bool receives = true) {
      if (odd)
        EXPECT_THROW(call(), std::domain_error);
      else if (receives)
        refused(call, reason);
      else
        call();
    };
    fails([&] { world.broadcast_object(one, {.root = last}); });
    EXPECT_EQ(one == before_it, !odd);
    fails([&] { (void)world.all_gather_object(one); });
    fails([&] { (void)world.gather_object(one); }, world.rank() == 0);
    std::vector<Setting> all(odd ? static_cast<std::size_t>(world.size()) : 0, before_it);
    if (odd) all.back() = one;
    fails([&] { (void)world.scatter_object(all, {.root = last}); });

    // Another type, and bytes that are none of this type, in a block and beyond it.
    for (const std::size_t size : {std::size_t{3}, std::size_t{5000}}) {
      if (odd) {
        std::string text(size, 'x');
        Impostor impostor{text};
        world.broadcast_object(text, {.root = last});
        world.broadcast_object(impostor, {.root = last});
        EXPECT_EQ(world.gather_object(impostor).size(), 0U);
      } else {
        refused([&] { world.broadcast_object(one, {.root = last}); },
                "sent an object of another type than this rank's Setting");
        std::string none =
            base::format("sent {} bytes that are no Setting: the text has no end", size);
        refused([&] { world.broadcast_object(one, {.root = last}); }, none);
        if (world.rank() == 0)
          refused([&] { (void)world.gather_object(one); }, none);
        else
          EXPECT_TRUE(world.gather_object(one).empty());
      }
    }
    EXPECT_EQ(one == before_it, !odd);

    // Messages, from the last rank to rank 0.
    if (GroupAccess::backend(world).capabilities().probe) {
      const base::ObjectHead head{.type = base::fnv_of("Setting"), .size = 9};
      std::array<std::byte, base::kObjectHeadBytes> lies{};
      base::write_object_head(head, lies);
      std::array<std::byte, base::kObjectHeadBytes> newer = lies;
      newer[4] = std::byte(2);
      std::array<std::byte, base::kObjectHeadBytes> huge = lies;
      huge[23] = std::byte(0x7f);
      const std::array<std::byte, base::kObjectHeadBytes> zeros{};
      const std::vector<int> plain(2, 5);
      if (odd) {
        EXPECT_THROW(world.send_object(one, 0), std::domain_error);
        world.send_object(1.5, 0);
        for (const auto& bytes : {lies, newer, huge, zeros}) world.send(bytes, 0);
        world.send(plain, 0);
      } else if (world.rank() == 0) {
        const auto receive = [&] { (void)world.recv_object(one, any_source); };
        refused(receive, reason);
        refused(receive, "sent an object of another type than this rank's Setting");
        refused(receive, "sent an object of 9 bytes in a message of 0");
        refused(receive,
                "sent bytes that are an object in format 2, and this library reads format 1");
        refused(receive, "sent bytes that tell an impossible size of 9151314442816847881");
        refused(receive, "sent bytes that are no object");
        const Outcome error = error_of<InvalidArgument>(receive);
        EXPECT_THAT(error.message(), testing::HasSubstr("is no object; it stays for a recv"));
        std::vector<int> ours(2);
        const bool bytes = world.backend() == "mpi";
        const std::string elements = bytes ? "uint8 x 8 " : "int32 x 2 ";
        EXPECT_THAT(error.message(), testing::HasSubstr(sender + "with tag 0 has " + elements));
        EXPECT_EQ(world.recv(ours, last), last);
        EXPECT_EQ(ours, plain);
      }
      EXPECT_EQ(one == before_it, !odd);
    }
    expect_usable(world);

    // The first call of Python's broadcast of objects is none of ours, and so is a forged head.
    {
      ProcessGroup group = world.new_subgroups(world.size());
      std::vector<std::uint8_t> meta(16);
      const Outcome error = error_of<DisagreementError>([&] {
        if (odd)
          group.broadcast(meta).wait();
        else
          group.broadcast_object(one);
        group.barrier().wait();
      });
      EXPECT_THAT(error.message(), testing::HasSubstr("called broadcast_object(root 0)"));
      EXPECT_THAT(error.message(), testing::HasSubstr("called broadcast(root 0, uint8 x 16"));
    }
    {
      ProcessGroup group = world.new_subgroups(world.size());
      // The first receiver that sees it aborts the group, which others may hear earlier.
      const Outcome error = error_of<Error>([&] {
        if (odd) {
          std::vector<std::byte> block(512);
          Collective call;
          call.kind = Kind::broadcast;
          call.root = last;
          call.digest = base::kObjectDigest;
          call.input = call.output = TensorView(block);
          GroupAccess::submit(group, call, std::nullopt, false).wait();
        } else {
          group.broadcast_object(one, {.root = last});
        }
        group.barrier().wait();
      });
      EXPECT_THAT(error.message(), testing::HasSubstr(sender + "sent bytes that are no object; "
                                                               "the group is aborted"));
    }
    world.barrier().wait();
  });
}

TEST_P(BackendContractOfSeveral, ListsThatDifferMakeNoGroup) {
  run([](ProcessGroup& world) {
    const int odd_one = world.rank() == 0 ? 0 : 1;
    EXPECT_THROW((void)world.new_group({odd_one}), DisagreementError);
    EXPECT_EQ(world.health().code(), Errc::disagreement);
  });
}

TEST_P(BackendContractOfSeveral, WhoHasDestroyedItsEndIsNamed) {
  run([](ProcessGroup& world) {
    for (const std::size_t count : {10, 100'000}) {
      ProcessGroup group = world.new_subgroups(world.size());
      std::vector<int> values(count, world.rank() == 1 ? 7 : 0);
      group.broadcast(values, {.root = 1}).wait();
      EXPECT_EQ(values, std::vector<int>(count, 7)) << "what it had given arrives";
      if (world.rank() == 1) group = {};
      // The rank that misses it first breaks the group for all: by then they must have got what it
      // had given.
      world.barrier().wait();
      if (group) {
        const Outcome error = error_of<NetworkError>([&] { group.all_reduce(values).wait(); });
        EXPECT_EQ(error.code(), Errc::peer_left) << error.message();
        EXPECT_EQ(error.culprit(), 1) << error.message();
      }
      expect_usable(world);
    }
  });
}

// ---- Groups that are made of others

TEST_P(BackendContract, AGroupHasItsMembersInTheOrderOfTheList) {
  run([](ProcessGroup& world) {
    std::vector<int> even;  // the last one first
    for (int r = world.size() - 1; r >= 0; --r) {
      if (r % 2 == 0) even.push_back(r);
    }
    ProcessGroup group = world.new_group(even);
    ASSERT_EQ(static_cast<bool>(group), world.rank() % 2 == 0);
    if (group) {
      EXPECT_EQ(group.size(), static_cast<int>(even.size()));
      EXPECT_EQ(group.backend(), world.backend());
      std::vector<int> ranks(even.size());
      const std::vector<int> mine{world.rank()};
      group.all_gather(ranks, mine).wait();
      EXPECT_EQ(ranks, even);
      make_every_call<float>(group, 33);
    }
    // Those outside took part in making it, and go on as well.
    expect_usable(world);
    if (group) {
      ProcessGroup inner = group.new_group({0});
      ASSERT_EQ(static_cast<bool>(inner), group.rank() == 0);
      if (inner) {
        expect_usable(inner);
        EXPECT_EQ(inner.global_rank(0), even.front());
      }
    }
  });
}

TEST_P(BackendContract, TwoGroupsWorkAtOnce) {
  run([](ProcessGroup& world) {
    std::vector<int> even;
    for (int r = 0; r < world.size(); r += 2) even.push_back(r);
    ProcessGroup group = world.new_group(even);
    for (int i = 0; i < 20; ++i) {
      std::vector<int> all(100, 1);
      std::vector<int> some(100, 1);
      Work first = world.all_reduce(all);
      if (group) group.all_reduce(some).wait();
      first.wait();
      EXPECT_EQ(all, std::vector<int>(100, world.size()));
      EXPECT_EQ(some, std::vector<int>(100, group ? group.size() : 1));
    }
  });
}

TEST_P(BackendContract, IsDividedByColoursAndSizes) {
  run([](ProcessGroup& world) {
    // By colour, the last rank first; every third rank has none.
    const std::optional<int> color =
        world.rank() % 3 == 2 ? std::nullopt : std::optional<int>(world.rank() % 2);
    ProcessGroup group = world.split(color, -world.rank());
    ASSERT_EQ(static_cast<bool>(group), color.has_value());
    if (group) {
      std::vector<int> ranks(static_cast<std::size_t>(group.size()));
      const std::vector<int> mine{world.rank()};
      group.all_gather(ranks, mine).wait();
      EXPECT_TRUE(std::is_sorted(ranks.rbegin(), ranks.rend()));
      for (const int rank : ranks) EXPECT_EQ(rank % 2, *color);
      EXPECT_EQ(group.global_rank(group.rank()), world.rank());
    }
    for (int each = 1; each <= world.size(); ++each) {
      if (world.size() % each != 0) {
        EXPECT_THROW((void)world.new_subgroups(each), InvalidArgument);
        continue;
      }
      ProcessGroup part = world.new_subgroups(each);
      std::vector<int> one{1};
      part.all_reduce(one).wait();
      EXPECT_EQ(one[0], each);
      EXPECT_EQ(part.rank(), world.rank() % each);
    }
  });
}

TEST_P(BackendContract, AWorkOutlivesTheHandlesOfItsGroup) {
  run([](ProcessGroup& world) {
    std::vector<int> values(1000, 1);
    Work work = [&] {
      ProcessGroup group = world.new_subgroups(world.size());
      return group.all_reduce(values);
    }();
    work.wait();
    EXPECT_EQ(values, std::vector<int>(1000, world.size()));
    expect_usable(world);
  });
}

}  // namespace tutti::test
