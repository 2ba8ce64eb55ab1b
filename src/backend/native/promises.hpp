#pragma once

#include <tutti/backend/registry.hpp>
#include <tutti/device.hpp>

namespace tutti::native {

/// Where the tensors may be that it takes (tools/promises.py reads this, too).
inline constexpr DeviceType kTakes[] = {DeviceType::cpu, DeviceType::cuda};

/// The promises of this backend (tools/promises.py reads it).
inline constexpr PromiseRow kPromises[] = {
    {Promise::same_bits, true, "", "contract/backend/promises_contract.cpp SumsHaveOneOrder"},
    {Promise::narrow_rounded_once, true, "",
     "contract/backend/promises_contract.cpp NarrowSumsAreRoundedOnce"},
    {Promise::outputs_untouched, true, "",
     "contract/backend/backend_contract.cpp CallsThatDifferAreAnErrorOnEveryRank"},
    {Promise::sizes_compared, true, "",
     "contract/backend/backend_contract.cpp "
     "BlocksOfAnotherLengthThanIsExpectedAreAnErrorOnEveryRank"},
    {Promise::lengths_compared, true, "",
     "contract/backend/promises_contract.cpp AMessageThatIsTooLongIsAnError"},
    {Promise::dtypes_compared, true, "",
     "contract/backend/promises_contract.cpp ARecvOfAnotherDtypeIsAnError"},
    {Promise::timeout_frees_tensors, true, "",
     "contract/backend/promises_contract.cpp ATimeoutFreesTheTensors"},
    {Promise::late_rank_named, true, "",
     "contract/backend/backend_contract.cpp WhoDoesNotComeInTimeIsNamed"},
    {Promise::killed_rank_named, true, "",
     "processes/fault/kill_test.cpp SurvivorsInSharedMemoryGetAnErrorInTime"},
    {Promise::all_tags, true, "", "contract/backend/promises_contract.cpp MessagesTakeAnyTag"},
    {Promise::group_in_time, true, "",
     "processes/fault/each_operation_test.cpp AStoppedRankIsNamedAtTheDeadline"},
    {Promise::encrypted, true, "", "unit/secure/stream_test.cpp HidesWhatIsSent"},
    {Promise::thread_ranks, true, "", "contract/backend/thread_ranks_contract_test.cpp Threads"},
    {Promise::fork_is_error, true, "",
     "processes/fault/fork_test.cpp ChildrenAreRefusedEverythingButAWorldOfTheirOwn"},
    {Promise::several_worlds, true, "",
     "contract/group/process_ranks_test.cpp GiveKnownResultsAgainAndAgain"},
};

}  // namespace tutti::native
