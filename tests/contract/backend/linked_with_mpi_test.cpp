// A program that is linked with an MPI itself, and uses it beside tutti. It is built without -fPIC
// for Open MPI's library: what mpi.h names MPI_COMM_WORLD or MPI_FLOAT is then the program's own
// copy (a copy relocation), and the backend must find the same handles as the program.

#include <dlfcn.h>

#include <gmock/gmock.h>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <tutti/mpi.hpp>

#include "arrangement.hpp"

namespace tutti::test {
namespace {

/// The file that holds what is at this address.
[[maybe_unused]] std::string file_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

ProcessGroup world_on_mpi(std::any options = {}) {
  return launched_world("mpi", kForever, std::move(options));
}

template <class T>
void expect_sums(ProcessGroup& group, MPI_Comm comm, MPI_Datatype type) {
  // Small enough for the type: at most 8 ranks.
  const auto number = [](int value) { return static_cast<T>(static_cast<float>(value)); };
  std::vector<T> ours(100, number(group.rank() + 1));
  std::vector<T> theirs = ours;
  group.all_reduce(ours).wait();
  ASSERT_EQ(MPI_Allreduce(MPI_IN_PLACE, theirs.data(), 100, type, MPI_SUM, comm), MPI_SUCCESS);
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours, std::vector<T>(100, number(group.size() * (group.size() + 1) / 2)));
}

void expect_all_types(ProcessGroup& group, MPI_Comm comm) {
  expect_sums<std::uint8_t>(group, comm, MPI_UINT8_T);
  expect_sums<std::int8_t>(group, comm, MPI_INT8_T);
  expect_sums<std::uint16_t>(group, comm, MPI_UINT16_T);
  expect_sums<std::int16_t>(group, comm, MPI_INT16_T);
  expect_sums<std::uint32_t>(group, comm, MPI_UINT32_T);
  expect_sums<std::int32_t>(group, comm, MPI_INT32_T);
  expect_sums<std::uint64_t>(group, comm, MPI_UINT64_T);
  expect_sums<std::int64_t>(group, comm, MPI_INT64_T);
  expect_sums<float>(group, comm, MPI_FLOAT);
  expect_sums<double>(group, comm, MPI_DOUBLE);
  expect_sums<std::complex<float>>(group, comm, MPI_C_FLOAT_COMPLEX);
  expect_sums<std::complex<double>>(group, comm, MPI_C_DOUBLE_COMPLEX);
  std::vector<float> narrow(7, 1);  // an operation of ours on a type of ours
  group.all_reduce(narrow, {.op = ReduceOp::max}).wait();
  EXPECT_EQ(narrow, std::vector<float>(7, 1));
}

#if defined(OPEN_MPI)
TEST(LinkedWithMpi, HoldsTheHandlesItself) {
  // Where the program had none of its own, this test would try what every other program does.
  EXPECT_EQ(file_of(&ompi_mpi_comm_world), file_of(reinterpret_cast<void*>(&file_of)))
      << "no copy relocation: built with -fPIC?";
}
#endif

TEST(LinkedWithMpi, AddsTheSameOnMpiCommWorld) {
  ProcessGroup world = world_on_mpi();
  int rank = -1;
  int size = -1;
  ASSERT_EQ(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
  ASSERT_EQ(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
  EXPECT_EQ(world.rank(), rank);
  EXPECT_EQ(world.size(), size);
  expect_all_types(world, MPI_COMM_WORLD);
}

TEST(LinkedWithMpi, TheProgramKeepsItsErrorHandlers) {
  world_on_mpi().barrier().wait();
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_EQ(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler), MPI_SUCCESS);
  EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
}

TEST(LinkedWithMpi, TakesACommunicatorOfTheProgramAndGivesItsOwn) {
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed), MPI_SUCCESS);
  {
    ProcessGroup world = world_on_mpi(mpi_handle(reversed));
    EXPECT_EQ(world.rank(), size - 1 - rank);
    const auto own = mpi_communicator<MPI_Comm>(world);
    int relation = MPI_UNEQUAL;
    ASSERT_EQ(MPI_Comm_compare(reversed, own, &relation), MPI_SUCCESS);
    EXPECT_EQ(relation, MPI_CONGRUENT);
    expect_all_types(world, own);
  }
  int still = -1;
  ASSERT_EQ(MPI_Comm_rank(reversed, &still), MPI_SUCCESS) << "the program keeps its communicator";
  EXPECT_EQ(still, size - 1 - rank);
  MPI_Comm_free(&reversed);
}

TEST(LinkedWithMpi, NoCommunicatorIsTold) {
  const Outcome error =
      error_of<InvalidArgument>([] { (void)world_on_mpi(mpi_handle(MPI_COMM_NULL)); });
  EXPECT_THAT(error.message(), testing::HasSubstr("MPI_COMM_NULL"));
}

TEST(LinkedWithMpi, WorldsOnItsCommunicatorsLeaveNothing) {
  [[maybe_unused]] int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm all = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &all), MPI_SUCCESS);
  for (int i = 0; i < 50; ++i) world_on_mpi(mpi_handle(all)).barrier().wait();
  MPI_Comm_free(&all);
#if !defined(OPEN_MPI)
  // MPICH has 2048 communicators.
  const int worlds = rank == 0 ? 2200 : 0;
  for (int i = 0; i < worlds; ++i) world_on_mpi(mpi_handle(MPI_COMM_SELF)).barrier().wait();
#endif
}

/// The program begins MPI itself, so it ends it, too.
class OfTheProgram final : public testing::Environment {
 public:
  void SetUp() override {
    int provided = 0;
    ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), MPI_SUCCESS);
  }
  void TearDown() override { EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS); }
};

/// Destroyed when MPI has been finalised.
ProcessGroup& late_group() {
  static ProcessGroup group;
  return group;
}

TEST(LinkedWithMpi, AGroupMayOutliveMpi) {
  late_group() = world_on_mpi();
  late_group().barrier().wait();
}

[[maybe_unused]] testing::Environment* const kMpi =
    testing::AddGlobalTestEnvironment(new OfTheProgram);

}  // namespace
}  // namespace tutti::test
