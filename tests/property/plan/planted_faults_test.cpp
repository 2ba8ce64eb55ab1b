#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "plan/program.hpp"
#include "proof_cases.hpp"

// Right schedules with one thing made wrong. The prover must say of each what it is.
namespace tutti::verify {

using namespace plan;

namespace {

constexpr Expr i = Expr::loop();

using All = std::vector<Schedule>;

constexpr int kRanks = 4;
// Seven chunks of eight elements: every slot is used again, every rank has a part of each chunk.
constexpr ProofCase kCase{56, 8, 1, false};
constexpr ProofCase kInPlace{56, 8, 1, true};

/// Index of the n-th step of a kind.
std::size_t index_of(const Schedule& s, StepKind kind, int n = 0) {
  for (std::size_t at = 0; at < s.steps.size(); ++at) {
    if (s.steps[at].kind == kind && n-- == 0) return at;
  }
  ADD_FAILURE() << "no such step";
  return 0;
}

Step& nth(Schedule& s, StepKind kind, int n = 0) { return s.steps[index_of(s, kind, n)]; }

void move_targets(Schedule& s, std::size_t from, std::int32_t by) {
  for (Step& step : s.steps) {
    if (step.jump > static_cast<std::int32_t>(from)) step.jump += by;
  }
}

Step take_out(Schedule& s, StepKind kind, int n = 0) {
  const std::size_t at = index_of(s, kind, n);
  Step step = s.steps[at];
  s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
  move_targets(s, at, -1);
  return step;
}

void put_in(Schedule& s, std::size_t at, const Step& step) {
  move_targets(s, at, 1);
  s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(at), step);
}

Step made(StepKind kind) {
  Step step;
  step.kind = kind;
  return step;
}

struct Planted {
  std::string_view name;
  Schedule (*build)(const Shape&);
  void (*plant)(All& all);
  Fault fault;
  std::set<Fault> follows = {};  ///< what comes of it and may be told too
  ProofCase c = kCase;
  Claims claims = {};
};

std::ostream& operator<<(std::ostream& out, const Planted& p) { return out << p.name; }

const Planted kPlanted[] = {
    {"acknowledgement_not_awaited", region_broadcast_chunked,
     [](All& all) { take_out(all[0], StepKind::await); }, Fault::early_reuse},
    {"acknowledgement_dropped", region_broadcast_chunked,
     [](All& all) { take_out(all[2], StepKind::signal); }, Fault::deadlock},
    {"acknowledged_before_read", region_broadcast_chunked,
     [](All& all) {
       const Step ack = take_out(all[2], StepKind::signal);
       put_in(all[2], index_of(all[2], StepKind::copy), ack);
     },
     Fault::early_reuse},
    {"one_slot_too_few", slice_owner_all_reduce,
     [](All& all) {
       for (Schedule& s : all) {
         for (Step& step : s.steps) {
           for (Expr* slot : {&step.dst.slot, &step.src.slot}) {
             if (slot->mod == 4) slot->mod = 1;
           }
         }
       }
     },
     Fault::early_reuse},
    {"swapped_chunk",
     slice_owner_all_reduce,
     [](All& all) { nth(all[1], StepKind::copy, 3).src.slice.chunk = i; },
     Fault::wrong_element,
     {Fault::undefined_read}},
    {"swapped_slot",
     slice_owner_all_reduce,
     [](All& all) { nth(all[1], StepKind::copy, 6).src.slot = (i + 3) % 4 + 4; },
     Fault::wrong_element,
     {Fault::undefined_read}},
    {"double_add", one_shot_all_reduce,
     [](All& all) { nth(all[0], StepKind::reduce).ranks.count = kRanks + 1; }, Fault::added_twice},
    {"missing_add",
     one_shot_all_reduce,
     [](All& all) { nth(all[0], StepKind::reduce).ranks.count = kRanks - 1; },
     Fault::not_added,
     {Fault::divided_wrongly}},
    {"wrong_tree", one_shot_all_reduce,
     [](All& all) { nth(all[0], StepKind::reduce).ranks.first = 1; }, Fault::wrong_order},
    {"ring_that_claims_the_tree", ring_all_reduce,
     [](All& all) {
       for (Schedule& s : all) s.order = OrderClass::binomial;
     },
     Fault::wrong_order},
    {"missing_agree", one_shot_all_reduce, [](All& all) { take_out(all[3], StepKind::agree); },
     Fault::before_agree},
    {"agree_too_late", slice_owner_all_reduce,
     [](All& all) {
       const Step agree = take_out(all[3], StepKind::agree);
       put_in(all[3], all[3].steps.size(), agree);
     },
     Fault::before_agree},
    {"receive_into_output_before_agree", direct_all_reduce,
     [](All& all) {
       const Step agree = take_out(all[3], StepKind::agree);
       put_in(all[3], all[3].steps.size(), agree);
     },
     Fault::before_agree},
    {"lines_replaced_by_counters", region_barrier,
     [](All& all) {
       for (Schedule& s : all) {
         Step signal = made(StepKind::signal);
         signal.value = 1;
         put_in(s, 1, signal);
         Step await = made(StepKind::await);
         await.value = 1;
         await.ranks = s.rank == 2 ? nth(s, StepKind::await_line).ranks : only(2);
         if (s.rank == 2) {
           take_out(s, StepKind::await_line);
         } else {  // 0, 1 and 3: three ranks from 3 on
           nth(s, StepKind::await_line).ranks = ranks_from(3, 3);
         }
         put_in(s, index_of(s, StepKind::agree), await);
       }
     },
     Fault::not_compared},
    {"missing_receive",
     exchange_all_reduce,
     [](All& all) { take_out(all[1], StepKind::recv); },
     Fault::unmatched_message,
     {Fault::undefined_read}},
    {"receive_never_awaited",
     direct_all_reduce,
     [](All& all) { take_out(all[1], StepKind::await_recv, 1); },
     Fault::unmatched_message,
     {Fault::not_written}},
    {"extra_send", exchange_all_reduce,
     [](All& all) { put_in(all[0], 1, nth(all[0], StepKind::send)); }, Fault::unmatched_message},
    {"wrong_peer", exchange_all_reduce, [](All& all) { nth(all[0], StepKind::send).peer = 2; },
     Fault::deadlock},
    {"wrong_size", binomial_broadcast,
     [](All& all) { nth(all[0], StepKind::send).src.slice = chunk_part(i, 0, 2); },
     Fault::size_mismatch},
    {"dropped_send", exchange_all_reduce, [](All& all) { take_out(all[2], StepKind::send); },
     Fault::deadlock},
    {"messages_in_another_order", scatter_all_gather_broadcast,
     [](All& all) { nth(all[0], StepKind::send).src.slice.part = 1; }, Fault::wrong_element},
    {"signal_too_early", slice_owner_all_reduce,
     [](All& all) {
       const Step signal = take_out(all[1], StepKind::signal);
       put_in(all[1], index_of(all[1], StepKind::reduce), signal);
     },
     Fault::early_read},
    {"wrong_counter", slice_owner_all_reduce,
     [](All& all) { nth(all[1], StepKind::await).counter = 1; }, Fault::early_read},
    {"wrong_value", slice_owner_all_reduce,
     [](All& all) {
       for (Schedule& s : all) nth(s, StepKind::await).value = i + 1;
     },
     Fault::deadlock},
    {"sum_taken_too_early", slice_owner_all_reduce,
     [](All& all) { nth(all[1], StepKind::await, 1).value = i; }, Fault::early_read},
    {"await_dropped",
     slice_owner_all_reduce,
     [](All& all) { take_out(all[1], StepKind::await); },
     Fault::early_read,
     {Fault::early_reuse}},
    {"missing_publish", one_shot_all_reduce, [](All& all) { take_out(all[2], StepKind::publish); },
     Fault::missing_publish},
    {"published_before_staged", one_shot_all_reduce,
     [](All& all) {
       const Step publish = take_out(all[2], StepKind::publish);
       put_in(all[2], 0, publish);
     },
     Fault::early_read},
    {"missing_await_line",
     one_shot_all_reduce,
     [](All& all) { take_out(all[2], StepKind::await_line); },
     Fault::stage_unknown,
     {Fault::not_written}},
    {"not_staged",
     slice_owner_all_reduce,
     [](All& all) { take_out(all[1], StepKind::copy, 1); },
     Fault::undefined_read,
     {Fault::wrong_element}},
    {"slot_out_of_bounds",
     region_broadcast_chunked,
     [](All& all) { nth(all[0], StepKind::copy, 1).dst.slot = (i + 1) % 5; },
     Fault::out_of_bounds,
     {Fault::undefined_read, Fault::wrong_element, Fault::early_read, Fault::early_reuse}},
    {"everybody_waits_first", slice_owner_all_reduce,
     [](All& all) {
       for (Schedule& s : all) {
         const Step signal = take_out(s, StepKind::signal);
         put_in(s, index_of(s, StepKind::end_loop), signal);
       }
     },
     Fault::deadlock},
    {"winner_signals_before_its_result", shared_one_shot_all_reduce,
     [](All& all) {
       const Step signal = take_out(all[1], StepKind::signal);
       put_in(all[1], index_of(all[1], StepKind::reduce), signal);
     },
     Fault::early_read},
    {"winner_without_claim",
     shared_one_shot_all_reduce,
     [](All& all) {
       Step& claim = nth(all[1], StepKind::claim);
       claim.jump = 0;
       claim = made(StepKind::jump);
       claim.jump = static_cast<std::int32_t>(index_of(all[1], StepKind::copy, 2));
     },
     Fault::stage_unknown,
     {Fault::not_written}},
    {"claims_of_a_counter_that_says_nothing", shared_one_shot_all_reduce,
     [](All& all) { nth(all[1], StepKind::claim).value = 0; }, Fault::early_read},
    {"counter_stands_still",
     region_broadcast_chunked,
     [](All& all) { nth(all[0], StepKind::signal).value = 9; },
     Fault::counter_falls,
     {Fault::early_read, Fault::early_reuse}},
    {"writes_into_a_peer",
     one_shot_all_reduce,
     [](All& all) { nth(all[0], StepKind::copy).dst.rank = 1; },
     Fault::foreign_write,
     {Fault::undefined_read}},
    {"root_writes_its_output", region_broadcast_one_shot,
     [](All& all) {
       Step copy = nth(all[0], StepKind::copy);
       copy.dst = output(whole());
       put_in(all[0], all[0].steps.size(), copy);
     },
     Fault::output_touched},
    {"sum_read_before_it_came",
     direct_all_reduce,
     [](All& all) { take_out(all[0], StepKind::await_recv); },
     Fault::early_read,
     {Fault::undefined_read, Fault::early_reuse, Fault::wrong_element}},
    {"sent_from_where_the_result_goes",
     exchange_all_reduce,
     [](All& all) {
       for (Schedule& s : all) {
         for (Step& step : s.steps) {
           if (step.kind == StepKind::send) step.src = input(whole());
         }
       }
     },
     Fault::early_reuse,
     {},
     kInPlace},
    {"two_receives_into_one_place",
     direct_barrier,
     [](All& all) {
       nth(all[0], StepKind::recv).dst.slot = nth(all[0], StepKind::recv, 1).dst.slot;
     },
     Fault::unordered_writes,
     {},
     {1, 0, 1, false}},
    {"barrier_without_somebody",
     region_barrier,
     [](All& all) { --nth(all[1], StepKind::await_line).ranks.count; },
     Fault::left_early,
     {},
     {1, 0, 1, false}},
    {"barrier_with_a_round_too_few",
     dissemination_barrier,
     [](All& all) {
       for (Schedule& s : all) {
         take_out(s, StepKind::send, 1);
         take_out(s, StepKind::recv, 1);
         take_out(s, StepKind::await_recv, 1);
       }
     },
     Fault::left_early,
     {},
     {1, 0, 1, false}},
    {"part_forgotten", slice_owner_all_reduce,
     [](All& all) { take_out(all[3], StepKind::copy, 8); }, Fault::not_written},
    {"loop_without_end", slice_owner_all_reduce,
     [](All& all) { take_out(all[3], StepKind::end_loop); }, Fault::malformed},
    {"jumps_back_for_ever", region_barrier,
     [](All& all) {
       Step jump = made(StepKind::jump);
       jump.jump = static_cast<std::int32_t>(all[1].steps.size());
       put_in(all[1], all[1].steps.size(), jump);
     },
     Fault::malformed},
    {"steps_against_the_flags", direct_all_reduce, [](All& all) { all[1].messages = false; },
     Fault::malformed},
    {"wrong_symmetry", region_broadcast_one_shot,
     [](All& all) {
       for (Schedule& s : all) s.symmetry = Symmetry::rotation;
     },
     Fault::wrong_symmetry},
    {"not_divided", one_shot_all_reduce,
     [](All& all) { nth(all[2], StepKind::reduce).last = false; }, Fault::not_divided},
    {"not_divided_by_the_owner", direct_reduce_scatter,
     [](All& all) { nth(all[2], StepKind::reduce).last = false; }, Fault::not_divided},
    {"divided_before_it_is_complete",
     binomial_all_reduce,
     [](All& all) { nth(all[0], StepKind::reduce).last = true; },
     Fault::divided_wrongly,
     {Fault::wrong_order}},
    {"divided_twice", two_level_all_reduce,
     [](All& all) { nth(all[0], StepKind::reduce, 1).last = true; }, Fault::divided_wrongly},
    {"partial_sums",
     direct_reduce,
     [](All& all) { all = build_all(binomial_reduce, one_host(kRanks), 0, kChunkBytes); },
     Fault::several_passes,
     {},
     kCase,
     {true, false}},
    {"split_into_chunks",
     direct_all_to_all,
     [](All& all) {
       Slice& slice = nth(all[1], StepKind::send).src.slice;
       slice = block_chunk(slice.part, 0);
     },
     Fault::splits_used,
     {},
     kCase,
     {false, true}},
    {"split_posted_after_waiting",
     direct_all_to_all,
     [](All& all) {
       const Step wait = take_out(all[1], StepKind::await_recv);
       put_in(all[1], index_of(all[1], StepKind::recv, 2), wait);
     },
     Fault::splits_used,
     {},
     kCase,
     {false, true}},
    {"input_that_nobody_gave", direct_scatter,
     [](All& all) {
       Step copy = made(StepKind::copy);
       copy.src = input(block(1));
       copy.dst = output(block(1));
       put_in(all[1], all[1].steps.size(), copy);
     },
     Fault::input_touched},
    {"output_that_nobody_asked_for", direct_gather,
     [](All& all) {
       Step copy = made(StepKind::copy);
       copy.src = input(block(1));
       copy.dst = output(block(1));
       put_in(all[1], all[1].steps.size(), copy);
     },
     Fault::output_touched},
    {"own_block_forgotten", direct_all_gather, [](All& all) { take_out(all[1], StepKind::copy); },
     Fault::not_written},
    {"own_block_forgotten_in_place",
     chunked_all_gather,
     [](All& all) { take_out(all[1], StepKind::copy, 2); },
     Fault::not_written,
     {},
     kInPlace},
    {"block_of_another_rank",
     direct_all_gather,
     [](All& all) { nth(all[0], StepKind::send).src.slice = block(2); },
     Fault::out_of_bounds,
     {Fault::wrong_element}},
    {"run_of_other_blocks",
     bruck_all_gather,
     [](All& all) { nth(all[0], StepKind::send, 1).src.slice.part = 1; },
     Fault::wrong_element,
     {Fault::undefined_read, Fault::early_read}},
    {"block_that_is_not_there",
     one_shot_all_gather,
     [](All& all) { nth(all[0], StepKind::copy, 2).src.slice.part = kRanks; },
     Fault::out_of_bounds,
     {Fault::not_written}},
    {"wrong_block", direct_scatter,
     [](All& all) { nth(all[0], StepKind::send).src.slice = block(2); }, Fault::wrong_element},
    {"wrong_block_of_uneven_ones",
     direct_all_to_all,
     [](All& all) { nth(all[0], StepKind::send).src.slice = block(2); },
     Fault::size_mismatch,
     {},
     {9, 0, 1, false, 3}},
    {"block_for_somebody_else",
     one_shot_all_to_all,
     [](All& all) { nth(all[1], StepKind::copy, 4).src.slice = block(0); },
     Fault::wrong_element,
     {Fault::not_written}},
    {"whole_of_what_is_a_list", direct_all_gather,
     [](All& all) { nth(all[0], StepKind::send).src.slice = whole(); }, Fault::malformed},
    {"fewer_slots_of_blocks", chunked_reduce_scatter,
     [](All& all) {
       for (Schedule& s : all) {
         for (Step& step : s.steps) {
           for (Expr* slot : {&step.dst.slot, &step.src.slot}) {
             if (slot->mod == 4 * kRanks) slot->mod = 2 * kRanks;
           }
         }
       }
     },
     Fault::early_reuse},
    {"sum_of_a_ring_that_claims_the_tree", ring_reduce_scatter,
     [](All& all) {
       for (Schedule& s : all) s.order = OrderClass::binomial;
     },
     Fault::wrong_order},
    {"halves_in_another_order", binomial_reduce,
     [](All& all) {
       Step& merge = nth(all[0], StepKind::reduce, 0);
       merge.ranks.first = kRanks - 1;
       nth(all[0], StepKind::recv, 0).dst.slot = 0;
     },
     Fault::wrong_order},
    {"pair_that_is_not_waited_for",
     doubling_all_reduce,
     [](All& all) { take_out(all[0], StepKind::await_recv, 1); },
     Fault::undefined_read,
     {Fault::unmatched_message}},
    {"pair_that_is_added_again",
     doubling_all_reduce,
     [](All& all) { nth(all[0], StepKind::reduce, 1).src.slot = 1; },
     Fault::added_twice,
     {Fault::not_added, Fault::divided_wrongly}},
    {"halves_that_claim_the_tree", halving_reduce_scatter,
     [](All& all) {
       for (Schedule& s : all) s.order = OrderClass::binomial;
     },
     Fault::wrong_order},
    {"other_half", halving_reduce_scatter,
     [](All& all) { nth(all[0], StepKind::send).src.slice = blocks(0, 2); }, Fault::wrong_element},
    {"line_of_a_host_not_awaited",
     two_level_gather,
     [](All& all) { take_out(all[0], StepKind::await_line); },
     Fault::stage_unknown,
     {Fault::not_written}},
    {"told_before_it_is_staged",
     two_level_scatter,
     [](All& all) {
       const Step told = take_out(all[0], StepKind::signal);
       put_in(all[0], index_of(all[0], StepKind::copy), told);
     },
     Fault::early_read,
     {Fault::undefined_read}},
    {"rank_of_a_host_left_out",
     two_level_reduce,
     [](All& all) { nth(all[0], StepKind::reduce).ranks.count = kRanks - 1; },
     Fault::not_added,
     {Fault::divided_wrongly}},
    {"owner_reduces_before_all_have_staged",
     slice_owner_reduce,
     [](All& all) { take_out(all[1], StepKind::await); },
     Fault::early_read,
     {Fault::early_reuse, Fault::undefined_read}},
    {"shape_of_another", slice_owner_all_reduce,
     [](All& all) {
       for (Schedule& s : all) s.shape = Schedule::Shape::one_shot;
     },
     Fault::wrong_shape},
    {"one_shot_that_takes_its_own_input", one_shot_all_reduce,
     [](All& all) { nth(all[2], StepKind::reduce).own_input = true; }, Fault::wrong_shape},
    {"shared_one_shot_with_another_counter", shared_one_shot_all_reduce,
     [](All& all) {
       for (Schedule& s : all) {
         nth(s, StepKind::claim).counter = 0;
         nth(s, StepKind::signal).counter = 0;
       }
     },
     Fault::wrong_shape},
    {"rank_too_many_in_a_scan",
     one_shot_exclusive_scan,
     [](All& all) { nth(all[2], StepKind::reduce).ranks.count = 3; },
     Fault::added_twice,
     {Fault::not_added}},
    {"rank_left_out_of_a_scan", chunked_scan,
     [](All& all) { nth(all[3], StepKind::reduce).ranks.count = 3; }, Fault::not_added},
    {"first_rank_left_out_of_a_scan",
     exchange_scan,
     [](All& all) {
       RankSet& ranks = nth(all[2], StepKind::reduce).ranks;
       ranks = ranks_from(1, 2);
       nth(all[2], StepKind::reduce).src.slot = 1;
     },
     Fault::not_added,
     {Fault::divided_wrongly}},
    {"scan_in_two_steps",
     exchange_scan,
     [](All& all) {
       // Slot 1 becomes the sum of slots 0 and 1, and is added with the others.
       const std::size_t at = index_of(all[3], StepKind::reduce);
       Step first = all[3].steps[at];
       first.dst = scratch(1, whole());
       first.ranks = ranks_from(0, 2);
       put_in(all[3], at, first);
       Step& rest = nth(all[3], StepKind::reduce, 1);
       rest.ranks = ranks_from(1, 3);
       rest.src.slot = 1;
     },
     Fault::several_passes,
     {Fault::divided_wrongly, Fault::wrong_order}},
    {"mean_of_one_rank_in_a_scan", exchange_exclusive_scan,
     [](All& all) { nth(all[1], StepKind::reduce).last = true; }, Fault::divided_wrongly},
    {"output_of_an_exclusive_scans_first_rank", one_shot_exclusive_scan,
     [](All& all) {
       all[0].steps.push_back(nth(all[1], StepKind::reduce));
       all[0].steps.back().ranks.count = 1;
     },
     Fault::output_touched},
};

std::vector<Finding> look(const All& all, const ProofCase& c, const Claims& claims) {
  std::vector<Finding> found = prove(all, c, claims);
  const std::vector<Finding> more = check_symmetry(all, one_host(kRanks), c);
  if (found.empty()) found = more;
  return found;
}

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsReportedAsWhatItIs) {
  const Planted& p = GetParam();
  All all = build_all(p.build, one_host(kRanks), 0, kChunkBytes);
  const std::vector<Finding> before = look(all, p.c, p.claims);
  ASSERT_TRUE(before.empty()) << before.front().text;
  p.plant(all);
  const std::vector<Finding> found = look(all, p.c, p.claims);
  std::string text;
  bool told = false;
  for (const Finding& f : found) {
    text += f.text + "\n";
    told |= f.kind == p.fault;
    EXPECT_TRUE(f.kind == p.fault || p.follows.count(f.kind) > 0) << f.text;
    EXPECT_TRUE(f.text.starts_with(to_string(f.kind))) << f.text;
  }
  EXPECT_TRUE(told) << "found: " << text;
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(kPlanted),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(PlantedFaults, CoverEveryKind) {
  std::set<Fault> planted;
  for (const Planted& p : kPlanted) planted.insert(p.fault);
  for (int kind = 0; to_string(static_cast<Fault>(kind)) != "?"; ++kind) {
    EXPECT_EQ(planted.count(static_cast<Fault>(kind)), 1U) << to_string(static_cast<Fault>(kind));
  }
  EXPECT_GE(std::size(kPlanted), 25U);
}

}  // namespace
}  // namespace tutti::verify
