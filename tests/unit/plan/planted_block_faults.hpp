#pragma once

#include "planted_faults.hpp"

namespace tutti::verify::planted {

/// Blocks, sums and shapes that are not those of the collective.
[[nodiscard]] inline std::vector<Planted> block_faults() {
  using namespace plan;
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
      {"shape_of_another", slice_owner_all_reduce,
       each([](Schedule& s) { s.shape = Schedule::Shape::one_shot; }), wrong_shape},
      {"one_shot_that_takes_its_own_input", one_shot_all_reduce,
       changed(2, reduce, [](Step& s) { s.own_input = true; }), wrong_shape},
      {"shared_one_shot_with_another_counter", shared_one_shot_all_reduce, each([](Schedule& s) {
         nth(s, claim).counter = 0;
         nth(s, signal).counter = 0;
       }),
       wrong_shape},
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

}  // namespace tutti::verify::planted
