#pragma once

#include <tutti/promises.hpp>

namespace tutti::native {

/// The promises of this backend (tools/promises.py reads it).
inline constexpr PromiseRow kPromises[] = {
    {Promise::same_bits, true, "", "conformance/backend/promises_contract.hpp SumsHaveOneOrder"},
    {Promise::narrow_rounded_once, true, "",
     "conformance/backend/promises_contract.hpp NarrowSumsAreRoundedOnce"},
    {Promise::outputs_untouched, true, "",
     "conformance/backend/backend_contract.hpp CallsThatDifferAreAnErrorOnEveryRank"},
    {Promise::sizes_compared, true, "",
     "conformance/backend/backend_contract.hpp "
     "BlocksOfAnotherLengthThanIsExpectedAreAnErrorOnEveryRank"},
    {Promise::lengths_compared, true, "",
     "conformance/backend/promises_contract.hpp AMessageThatIsTooLongIsAnError"},
    {Promise::timeout_frees_tensors, true, "",
     "conformance/backend/promises_contract.hpp ATimeoutFreesTheTensors"},
    {Promise::late_rank_named, true, "",
     "conformance/backend/backend_contract.hpp WhoDoesNotComeInTimeIsNamed"},
    {Promise::killed_rank_named, true, "",
     "fault/kill_test.cpp SurvivorsInSharedMemoryGetAnErrorInTime"},
    {Promise::any_tag, true, "", "conformance/backend/promises_contract.hpp MessagesTakeAnyTag"},
    {Promise::group_in_time, true, "",
     "fault/each_operation_test.cpp AStoppedRankIsNamedAtTheDeadline"},
    {Promise::thread_ranks, true, "", "conformance/backend/thread_ranks_contract_test.cpp Threads"},
    {Promise::fork_is_error, true, "",
     "fault/fork_test.cpp ChildrenAreRefusedEverythingButAWorldOfTheirOwn"},
    {Promise::several_worlds, true, "",
     "property/group/process_ranks_test.cpp GiveKnownResultsAgainAndAgain"},
};

}  // namespace tutti::native
