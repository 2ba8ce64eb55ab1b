#include <string>
#include <utility>

#include "planted_faults.hpp"

namespace tutti::verify::planted {
namespace {

using namespace plan;

/// Steps that are missing, in another order, or name something else.
std::vector<Planted> step_faults() {
  using enum Fault;
  using enum StepKind;
  static constexpr Expr i = Expr::loop();
  return {
      {"acknowledgement_not_awaited", region_broadcast_chunked, without(0, await), early_reuse},
      {"acknowledgement_dropped", region_broadcast_chunked, without(2, signal), deadlock},
      {"acknowledged_before_read", region_broadcast_chunked, moved(2, signal, copy), early_reuse},
      {"one_slot_too_few", slice_owner_all_reduce, with_slots(4, 1), early_reuse},
      {"swapped_chunk", slice_owner_all_reduce,
       changed(1, copy, 3, [](Step& s) { s.src.slice.chunk = i; }),
       Told(wrong_element, undefined_read)},
      {"swapped_slot", slice_owner_all_reduce,
       changed(1, copy, 6, [](Step& s) { s.src.slot = (i + 3) % 4 + 4; }),
       Told(wrong_element, undefined_read)},
      {"double_add", one_shot_all_reduce,
       changed(0, reduce, [](Step& s) { s.ranks.count = kRanks + 1; }), added_twice},
      {"missing_add", one_shot_all_reduce,
       changed(0, reduce, [](Step& s) { s.ranks.count = kRanks - 1; }),
       Told(not_added, divided_wrongly)},
      {"wrong_tree", one_shot_all_reduce, changed(0, reduce, [](Step& s) { s.ranks.first = 1; }),
       wrong_order},
      {"ring_that_claims_the_tree", ring_all_reduce, claim_the_tree, wrong_order},
      {"missing_agree", one_shot_all_reduce, without(3, agree), before_agree},
      {"agree_too_late", slice_owner_all_reduce, moved_to_end(3, agree), before_agree},
      {"receive_into_output_before_agree", direct_all_reduce, moved_to_end(3, agree), before_agree},
      {"lines_replaced_by_counters", region_barrier, each([](Schedule& s) {
         Step signal = made(StepKind::signal);
         signal.value = 1;
         put_in(s, 1, signal);
         Step await = made(StepKind::await);
         await.value = 1;
         await.ranks = s.rank == 2 ? nth(s, await_line).ranks : only(2);
         if (s.rank == 2) {
           take_out(s, await_line);
         } else {  // 0, 1 and 3: three ranks from 3 on
           nth(s, await_line).ranks = ranks_from(3, 3);
         }
         put_in(s, index_of(s, agree), await);
       }),
       not_compared},
      {"missing_receive", exchange_all_reduce, without(1, recv),
       Told(unmatched_message, undefined_read)},
      {"receive_never_awaited", direct_all_reduce, without(1, await_recv, 1),
       Told(unmatched_message, not_written)},
      {"extra_send", exchange_all_reduce, [](All& all) { put_in(all[0], 1, nth(all[0], send)); },
       unmatched_message},
      {"wrong_peer", exchange_all_reduce, changed(0, send, [](Step& s) { s.peer = 2; }), deadlock},
      {"wrong_size", binomial_broadcast,
       changed(0, send, [](Step& s) { s.src.slice = chunk_part(i, 0, 2); }), size_mismatch},
      {"dropped_send", exchange_all_reduce, without(2, send), deadlock},
      {"messages_in_another_order", scatter_all_gather_broadcast,
       changed(0, send, [](Step& s) { s.src.slice.part = 1; }), wrong_element},
      {"signal_too_early", slice_owner_all_reduce, moved(1, signal, reduce), early_read},
      {"wrong_counter", slice_owner_all_reduce, changed(1, await, [](Step& s) { s.counter = 1; }),
       early_read},
      {"wrong_value", slice_owner_all_reduce,
       each([](Schedule& s) { nth(s, await).value = i + 1; }), deadlock},
      {"sum_taken_too_early", slice_owner_all_reduce,
       changed(1, await, 1, [](Step& s) { s.value = i; }), early_read},
      {"await_dropped", slice_owner_all_reduce, without(1, await), Told(early_read, early_reuse)},
      {"missing_publish", one_shot_all_reduce, without(2, publish), missing_publish},
      {"published_before_staged", one_shot_all_reduce,
       [](All& all) {
         const Step publish = take_out(all[2], StepKind::publish);
         put_in(all[2], 0, publish);
       },
       early_read},
      {"missing_await_line", one_shot_all_reduce, without(2, await_line),
       Told(stage_unknown, not_written)},
      {"not_staged", slice_owner_all_reduce, without(1, copy, 1),
       Told(undefined_read, wrong_element)},
      {"slot_out_of_bounds", region_broadcast_chunked,
       changed(0, copy, 1, [](Step& s) { s.dst.slot = (i + 1) % 5; }),
       Told(out_of_bounds, undefined_read, wrong_element, early_read, early_reuse)},
      {"everybody_waits_first", slice_owner_all_reduce, each([](Schedule& s) {
         const Step signal = take_out(s, StepKind::signal);
         put_in(s, index_of(s, end_loop), signal);
       }),
       deadlock},
      {"winner_signals_before_its_result", shared_one_shot_all_reduce, moved(1, signal, reduce),
       early_read},
      {"winner_without_claim", shared_one_shot_all_reduce,
       [](All& all) {
         Step& claim = nth(all[1], StepKind::claim);
         claim.jump = 0;
         claim = made(StepKind::jump);
         claim.jump = static_cast<std::int32_t>(index_of(all[1], copy, 2));
       },
       Told(stage_unknown, not_written)},
      {"claims_of_a_counter_that_says_nothing", shared_one_shot_all_reduce,
       changed(1, claim, [](Step& s) { s.value = 0; }), early_read},
      {"counter_stands_still", region_broadcast_chunked,
       changed(0, signal, [](Step& s) { s.value = 9; }),
       Told(counter_falls, early_read, early_reuse)},
      {"writes_into_a_peer", one_shot_all_reduce, changed(0, copy, [](Step& s) { s.dst.rank = 1; }),
       Told(foreign_write, undefined_read)},
      {"root_writes_its_output", region_broadcast_one_shot,
       [](All& all) {
         Step copy = nth(all[0], StepKind::copy);
         copy.dst = output(whole());
         put_in(all[0], all[0].steps.size(), copy);
       },
       output_touched},
      {"sum_read_before_it_came", direct_all_reduce, without(0, await_recv),
       Told(early_read, undefined_read, early_reuse, wrong_element)},
      {"sent_from_where_the_result_goes", exchange_all_reduce, each([](Schedule& s) {
         for (Step& step : s.steps) {
           if (step.kind == send) step.src = input(whole());
         }
       }),
       early_reuse, kInPlace},
      {"two_receives_into_one_place", direct_barrier,
       [](All& all) { nth(all[0], recv).dst.slot = nth(all[0], recv, 1).dst.slot; },
       unordered_writes, kOfABarrier},
      {"barrier_without_somebody", region_barrier,
       [](All& all) { --nth(all[1], await_line).ranks.count; }, left_early, kOfABarrier},
      {"barrier_with_a_round_too_few", dissemination_barrier, each([](Schedule& s) {
         take_out(s, send, 1);
         take_out(s, recv, 1);
         take_out(s, await_recv, 1);
       }),
       left_early, kOfABarrier},
      {"part_forgotten", slice_owner_all_reduce, without(3, copy, 8), not_written},
      {"loop_without_end", slice_owner_all_reduce, without(3, end_loop), malformed},
      {"jumps_back_for_ever", region_barrier,
       [](All& all) {
         Step jump = made(StepKind::jump);
         jump.jump = static_cast<std::int32_t>(all[1].steps.size());
         put_in(all[1], all[1].steps.size(), jump);
       },
       malformed},
      {"steps_against_the_flags", direct_all_reduce, [](All& all) { all[1].messages = false; },
       malformed},
      {"wrong_symmetry", region_broadcast_one_shot,
       each([](Schedule& s) { s.symmetry = Symmetry::rotation; }), wrong_symmetry},
  };
}

/// Blocks, sums and shapes that are not those of the collective.
std::vector<Planted> block_faults() {
  using enum Fault;
  using enum StepKind;
  return {
      {"not_divided", one_shot_all_reduce, changed(2, reduce, [](Step& s) { s.last = false; }),
       not_divided},
      {"not_divided_by_the_owner", direct_reduce_scatter,
       changed(2, reduce, [](Step& s) { s.last = false; }), not_divided},
      {"divided_before_it_is_complete", binomial_all_reduce,
       changed(0, reduce, [](Step& s) { s.last = true; }), Told(divided_wrongly, wrong_order)},
      {"divided_twice", two_level_all_reduce, changed(0, reduce, 1, [](Step& s) { s.last = true; }),
       divided_wrongly},
      {"partial_sums", direct_reduce,
       [](All& all) { all = build_all(binomial_reduce, one_host(kRanks), 0, kChunkBytes); },
       several_passes, kCase, kSinglePass},
      {"split_into_chunks", direct_all_to_all,
       changed(1, send, [](Step& s) { s.src.slice = block_chunk(s.src.slice.part, 0); }),
       splits_used, kCase, kAnySplits},
      {"split_posted_after_waiting", direct_all_to_all, moved(1, await_recv, recv, 2), splits_used,
       kCase, kAnySplits},
      {"input_that_nobody_gave", direct_scatter, block_copied(1), input_touched},
      {"output_that_nobody_asked_for", direct_gather, block_copied(1), output_touched},
      {"own_block_forgotten", direct_all_gather, without(1, copy), not_written},
      {"own_block_forgotten_in_place", chunked_all_gather, without(1, copy, 2), not_written,
       kInPlace},
      {"block_of_another_rank", direct_all_gather,
       changed(0, send, [](Step& s) { s.src.slice = block(2); }),
       Told(out_of_bounds, wrong_element)},
      {"run_of_other_blocks", bruck_all_gather,
       changed(0, send, 1, [](Step& s) { s.src.slice.part = 1; }),
       Told(wrong_element, undefined_read, early_read)},
      {"block_that_is_not_there", one_shot_all_gather,
       changed(0, copy, 2, [](Step& s) { s.src.slice.part = kRanks; }),
       Told(out_of_bounds, not_written)},
      {"wrong_block", direct_scatter, changed(0, send, [](Step& s) { s.src.slice = block(2); }),
       wrong_element},
      {"wrong_block_of_uneven_ones", direct_all_to_all,
       changed(0, send, [](Step& s) { s.src.slice = block(2); }), size_mismatch, kUneven},
      {"block_for_somebody_else", one_shot_all_to_all,
       changed(1, copy, 4, [](Step& s) { s.src.slice = block(0); }),
       Told(wrong_element, not_written)},
      {"whole_of_what_is_a_list", direct_all_gather,
       changed(0, send, [](Step& s) { s.src.slice = whole(); }), malformed},
      {"fewer_slots_of_blocks", chunked_reduce_scatter, with_slots(4 * kRanks, 2 * kRanks),
       early_reuse},
      {"sum_of_a_ring_that_claims_the_tree", ring_reduce_scatter, claim_the_tree, wrong_order},
      {"halves_in_another_order", binomial_reduce,
       [](All& all) {
         Step& merge = nth(all[0], reduce, 0);
         merge.ranks.first = kRanks - 1;
         nth(all[0], recv, 0).dst.slot = 0;
       },
       wrong_order},
      {"pair_that_is_not_waited_for", doubling_all_reduce, without(0, await_recv, 1),
       Told(undefined_read, unmatched_message)},
      {"pair_that_is_added_again", doubling_all_reduce,
       changed(0, reduce, 1, [](Step& s) { s.src.slot = 1; }),
       Told(added_twice, not_added, divided_wrongly)},
      {"halves_that_claim_the_tree", halving_reduce_scatter, claim_the_tree, wrong_order},
      {"other_half", halving_reduce_scatter,
       changed(0, send, [](Step& s) { s.src.slice = blocks(0, 2); }), wrong_element},
      {"line_of_a_host_not_awaited", two_level_gather, without(0, await_line),
       Told(stage_unknown, not_written)},
      {"told_before_it_is_staged", two_level_scatter, moved(0, signal, copy),
       Told(early_read, undefined_read)},
      {"rank_of_a_host_left_out", two_level_reduce,
       changed(0, reduce, [](Step& s) { s.ranks.count = kRanks - 1; }),
       Told(not_added, divided_wrongly)},
      {"owner_reduces_before_all_have_staged", slice_owner_reduce, without(1, await),
       Told(early_read, early_reuse, undefined_read)},
      {"rank_too_many_in_a_scan", one_shot_exclusive_scan,
       changed(2, reduce, [](Step& s) { s.ranks.count = 3; }), Told(added_twice, not_added)},
      {"rank_left_out_of_a_scan", chunked_scan,
       changed(3, reduce, [](Step& s) { s.ranks.count = 3; }), not_added},
      {"first_rank_left_out_of_a_scan", exchange_scan,
       changed(2, reduce,
               [](Step& s) {
                 s.ranks = ranks_from(1, 2);
                 s.src.slot = 1;
               }),
       Told(not_added, divided_wrongly)},
      {"scan_in_two_steps", exchange_scan,
       [](All& all) {
         // Slot 1 becomes the sum of slots 0 and 1, and is added with the others.
         const std::size_t at = index_of(all[3], reduce);
         Step first = all[3].steps[at];
         first.dst = scratch(1, whole());
         first.ranks = ranks_from(0, 2);
         put_in(all[3], at, first);
         Step& rest = nth(all[3], reduce, 1);
         rest.ranks = ranks_from(1, 3);
         rest.src.slot = 1;
       },
       Told(several_passes, divided_wrongly, wrong_order)},
      {"mean_of_one_rank_in_a_scan", exchange_exclusive_scan,
       changed(1, reduce, [](Step& s) { s.last = true; }), divided_wrongly},
      {"output_of_an_exclusive_scans_first_rank", one_shot_exclusive_scan,
       [](All& all) {
         all[0].steps.push_back(nth(all[1], reduce));
         all[0].steps.back().ranks.count = 1;
       },
       output_touched},
  };
}

std::vector<Planted> all_faults() {
  std::vector<Planted> all = step_faults();
  for (Planted& p : block_faults()) all.push_back(std::move(p));
  return all;
}

std::vector<Finding> look(const All& all, const ProofCase& c, const Claims& claims) {
  std::vector<Finding> found = prove(all, c, claims);
  const std::vector<Finding> more = check_symmetry(all, one_host(kRanks), c);
  if (found.empty()) found = more;
  return found;
}

class PlantedFault : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(all_faults()),
                         [](const auto& p) { return std::string(p.param.name); });

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
    told |= f.kind == p.told.fault;
    EXPECT_TRUE(f.kind == p.told.fault || p.told.follows.count(f.kind) > 0) << f.text;
    EXPECT_TRUE(f.text.starts_with(to_string(f.kind))) << f.text;
  }
  EXPECT_TRUE(told) << "found: " << text;
}

TEST(PlantedFaults, CoverEveryKind) {
  std::set<Fault> planted;
  const std::vector<Planted> all = all_faults();
  for (const Planted& p : all) planted.insert(p.told.fault);
  for (int kind = 0; to_string(static_cast<Fault>(kind)) != "?"; ++kind)
    EXPECT_EQ(planted.count(static_cast<Fault>(kind)), 1U) << to_string(static_cast<Fault>(kind));
  EXPECT_GE(all.size(), 25U);
}

}  // namespace
}  // namespace tutti::verify::planted
