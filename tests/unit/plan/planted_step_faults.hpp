#pragma once

#include "planted_faults.hpp"

namespace tutti::verify::planted {

/// Steps that are missing, in another order, or name something else.
[[nodiscard]] inline std::vector<Planted> step_faults() {
  using namespace plan;
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

}  // namespace tutti::verify::planted
