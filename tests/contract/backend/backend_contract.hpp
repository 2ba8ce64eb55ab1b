#pragma once

#include <gmock/gmock.h>

#include "arrangement.hpp"
#include "support/called_back.hpp"
#include "support/operations.hpp"
#include "support/sanitized.hpp"

// What every backend promises to its groups, whatever it is made of. Each rank runs the same body,
// in a process of its own or as a thread, so bodies talk to each other by operations only. The
// tests are compiled once (tutti_backend_contract); a program that links them says on which worlds
// they run (INSTANTIATE_TEST_SUITE_P).
namespace tutti::test {

class BackendContract : public testing::TestWithParam<Arrangement> {
 protected:
  [[nodiscard]] static int size() { return GetParam().size; }
  static void run(const Arrangement::Body& body) { GetParam().run(body); }
  /// What the backend declares. Ask on a rank: by then it is known.
  static bool keeps(Promise promise) { return keeps_promise(GetParam().backend, promise); }

  /// Every operation in every form.
  static std::vector<Operation> operations() {
    std::vector<Operation> all = all_operations();
    all.insert(all.end(), std::begin(kCoalesced), std::end(kCoalesced));
    std::erase_if(all, [](const Operation& one) {
      return std::ranges::find(GetParam().lacks, one.kind) != GetParam().lacks.end();
    });
    return all;
  }
  template <class T>
  static PreparedCall<T> prepared(const ProcessGroup& group, const Operation& operation,
                                  const Arguments& arguments, bool strided = false,
                                  bool apart = false) {
    CallPlan plan = plan_of(operation, arguments, group.rank(), group.size());
    plan.apart = apart;
    if (strided && plan.in == Form::tensor) plan.in = Form::strided;
    if (strided && plan.out == Form::tensor) plan.out = Form::strided;
    return PreparedCall<T>(std::move(plan));
  }
  /// Makes each of them once, with `count` elements in a block.
  template <class T>
  static void make_every_call(ProcessGroup& group, std::size_t count, bool strided = false) {
    for (const Operation& operation : operations()) {
      const Arguments arguments{.count = count,
                                .root = (group.size() - 1) / 2,
                                .op = count % 2 == 0 ? ReduceOp::sum : ReduceOp::max};
      const KindTraits& traits = traits_of(operation.kind);
      const bool in_place = traits.layout == Layout::same && traits.reduces &&
                            operation.blocks == Operation::Blocks::even;
      for (int apart = 0; apart <= (in_place ? 1 : 0); ++apart) {
        PreparedCall<T> call = prepared<T>(group, operation, arguments, strided, apart != 0);
        call.run(group);
        EXPECT_EQ(call.wrong(), 0U) << operation.name << ": " << call.text();
      }
    }
  }
  /// The group is whole: all ranks of it add up.
  static void expect_usable(ProcessGroup& group) {
    std::vector<int> values(3, 1);
    group.all_reduce(values).wait();
    EXPECT_EQ(values, std::vector<int>(3, group.size()));
    EXPECT_TRUE(group.health().ok()) << group.health().message();
  }
};

/// Tests that take at least two ranks.
class BackendContractOfSeveral : public BackendContract {};

}  // namespace tutti::test
