#pragma once

#include <tutti/backend/kinds.hpp>
#include <tutti/backend/registry.hpp>
#include <tutti/device.hpp>

namespace tutti::nccl {

/// Where the tensors may be that it takes (tools/promises.py reads this, too).
inline constexpr DeviceType kTakes[] = {DeviceType::cuda};
/// Operations that it has not.
inline constexpr Kind kLacks[] = {Kind::scan, Kind::exclusive_scan, Kind::probe};

/// The promises of this backend (tools/promises.py reads it).
inline constexpr PromiseRow kPromises[] = {
    {Promise::same_bits, false, "NCCL chooses the order",
     "contract/backend/promises_contract.cpp SumsHaveOneOrder"},
    {Promise::narrow_rounded_once, false, "in every step",
     "contract/backend/promises_contract.cpp NarrowSumsAreRoundedOnce"},
    {Promise::outputs_untouched, false,
     "calls are compared while NCCL works already. The call is an error on every rank all the same",
     "contract/backend/backend_contract.cpp CallsThatDifferAreAnErrorOnEveryRank"},
    {Promise::sizes_compared, true, "while NCCL works already; not with `TUTTI_AGREE=off`",
     "contract/backend/backend_contract.cpp "
     "BlocksOfAnotherLengthThanIsExpectedAreAnErrorOnEveryRank"},
    {Promise::lengths_compared, true, "before NCCL moves it",
     "contract/backend/promises_contract.cpp AMessageThatIsTooLongIsAnError"},
    {Promise::dtypes_compared, true, "before NCCL moves it; there is no probe",
     "contract/backend/promises_contract.cpp ARecvOfAnotherDtypeIsAnError"},
    {Promise::timeout_frees_tensors, true,
     "the communicator is aborted. If the GPU does not end the operation within 1 s, the error "
     "says "
     "that the tensors must be kept",
     "contract/backend/promises_contract.cpp ATimeoutFreesTheTensors"},
    {Promise::late_rank_named, true, "not with `TUTTI_AGREE=off`",
     "contract/backend/backend_contract.cpp WhoDoesNotComeInTimeIsNamed"},
    {Promise::killed_rank_named, true, "by the companion group on the CPUs",
     "contract/backend/killed_rank_test.cpp IsNamedOnNcclWhileNcclWorks"},
    {Promise::all_tags, true, "the companion group on the CPUs matches messages",
     "contract/backend/promises_contract.cpp MessagesTakeAnyTag"},
    {Promise::group_in_time, true, "",
     "contract/backend/mock_nccl_faults_test.cpp MakingAGroupKeepsItsTimeout"},
    {Promise::encrypted, false, "it is an error at init; `auto` leaves NCCL out",
     "contract/backend/mock_nccl_routes_test.cpp EncryptionIsRefused"},
    {Promise::thread_ranks, true, "each with a GPU of its own",
     "contract/backend/backend_contract.cpp EveryOperationIsRight"},
    {Promise::fork_is_error, true, "",
     "contract/backend/mock_gpu_ways_test.cpp AForkedChildGetsAnError"},
    {Promise::several_worlds, true, "",
     "contract/backend/mock_nccl_faults_test.cpp SeveralWorldsFollowEachOther"},
};

}  // namespace tutti::nccl
