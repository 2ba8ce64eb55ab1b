#pragma once

#include <tutti/arguments.hpp>
#include <tutti/backend/registry.hpp>
#include <tutti/device.hpp>

namespace tutti::mpi {

/// Where the tensors may be that it takes (tools/promises.py reads this, too).
inline constexpr DeviceType kTakes[] = {DeviceType::cpu};

/// The promises of this backend (tools/promises.py reads it).
inline constexpr PromiseRow kPromises[] = {
    {Promise::same_bits, false, "MPI chooses the order",
     "contract/backend/promises_contract.cpp SumsHaveOneOrder"},
    {Promise::narrow_rounded_once, false, "in every step",
     "contract/backend/promises_contract.cpp NarrowSumsAreRoundedOnce"},
    {Promise::outputs_untouched, true,
     "if calls are compared; with `TUTTI_AGREE=off` MPI may hang or mix them",
     "contract/backend/backend_contract.cpp CallsThatDifferAreAnErrorOnEveryRank"},
    {Promise::sizes_compared, true,
     "with `TUTTI_AGREE=off` MPI cuts the message off and says so on that rank only",
     "contract/backend/backend_contract.cpp "
     "BlocksOfAnotherLengthThanIsExpectedAreAnErrorOnEveryRank"},
    {Promise::lengths_compared, false,
     "Open MPI 4.1.4 and 5.0.11 write a message of more than 4 KiB of the same host beyond the end "
     "of the tensor. All others report MPI_ERR_TRUNCATE",
     "contract/backend/promises_contract.cpp AMessageThatIsTooLongIsAnError"},
    {Promise::dtypes_compared, false,
     "a message of MPI has bytes: a recv takes any dtype with as many, and a probe reports uint8",
     "contract/backend/promises_contract.cpp ARecvOfAnotherDtypeIsAnError"},
    {Promise::timeout_frees_tensors, false,
     "MPI cannot cancel an operation. If MPI has begun to move data, the error says that the "
     "tensors must be kept until the process ends",
     "contract/backend/promises_contract.cpp ATimeoutFreesTheTensors"},
    {Promise::late_rank_named, true,
     "the others ask each other where they are. A rank that computes and does not answer within "
     "0.5 s is named, too",
     "contract/backend/backend_contract.cpp WhoDoesNotComeInTimeIsNamed"},
    {Promise::killed_rank_named, false, "MPI's launcher ends the job",
     "contract/backend/mpi_ranks_contract_test.cpp AKilledRankEndsTheJob"},
    {Promise::all_tags, false,
     "what MPI allows: all but the two largest with Open MPI, half of MPICH's 2^28",
     "contract/backend/promises_contract.cpp MessagesTakeAnyTag"},
    {Promise::group_in_time, false,
     "MPI_Comm_split blocks: if MPI fails on one rank in that moment, the others wait for the "
     "launcher",
     ""},
    {Promise::encrypted, false, "it is an error at init",
     "contract/backend/mpi_ranks_contract_test.cpp EncryptionIsRefused"},
    {Promise::thread_ranks, false, "MPI's ranks are processes",
     "contract/backend/mpi_ranks_contract_test.cpp RanksAreNoThreads"},
    {Promise::fork_is_error, true, "",
     "contract/backend/mpi_ranks_contract_test.cpp AForkedChildGetsAnError"},
    {Promise::several_worlds, true,
     "a communicator is freed when all ranks have left it and all messages have arrived, else it "
     "stays",
     "contract/group/process_ranks_test.cpp GiveKnownResultsAgainAndAgain"},
};

}  // namespace tutti::mpi
