// The C functions of an NCCL for TUTTI_NCCL_LIBRARY, over the model of mock_nccl.hpp: what loads a
// real one is tested with it on mock_cuda_driver.cpp. Its communicators have one rank, and its
// streams do their work at once. Misuse is an error of the call, with its text.
// TUTTI_TEST_NCCL_VERSION: what ncclGetVersion tells.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "backend/nccl/functions.hpp"
#include "support/mock_nccl.hpp"
#include "support/mock_nccl_abi.hpp"
#include "support/same_call.hpp"

namespace {

using namespace tutti::test::mock_nccl;
using tutti::nccl::Address;
using tutti::nccl::Comm;
using tutti::nccl::Op;
using tutti::nccl::Stream;
using tutti::nccl::Type;

// The model has the library's own numbers.
static_assert(kInProgress == tutti::nccl::kInProgress);
static_assert(kNoColor == tutti::nccl::kNoColor);
static_assert(kFirstMadeOp == static_cast<int>(Op::avg) + 1);

std::atomic<int> operations{0};
std::atomic<int> factors_of_gpus{0};
thread_local std::string last_error;

tutti::test::MockMachine& machine() { return tutti::test::MockMachine::of_process(); }
tutti::nccl::Api& nccl() {
  static auto* const network = new tutti::test::MockNetwork;
  static auto* const one = tutti::test::make_mock_nccl(machine(), *network, 0).release();
  return *one;
}

int refuse(std::string why) {
  last_error = std::move(why);
  return kInvalidUsage;
}
int told(int code) {
  const std::lock_guard lock(machine().mutex);
  std::string why = machine().new_misuses();
  return why.empty() ? code : refuse(std::move(why));
}
int ran(int code) {
  ++operations;
  return told(code);
}

Address at(const void* place) { return reinterpret_cast<Address>(place); }
Comm comm_of(void* handle) { return static_cast<Comm>(at(handle)); }
Stream stream_of(void* handle) { return static_cast<Stream>(at(handle)); }

bool fits(const Config* config) {
  return config != nullptr && config->size == sizeof(Config) && config->magic == kMagic &&
         config->version == kConfigVersion && config->blocking == 0 &&
         config->cgaClusterSize == kUndefined && config->minCTAs == kUndefined &&
         config->maxCTAs == kUndefined && config->netName == nullptr &&
         config->splitShare == kUndefined;
}

}  // namespace

#define TUTTI_NCCL extern "C" __attribute__((visibility("default")))

TUTTI_NCCL int ncclGetVersion(int* version) {
  const char* const text = std::getenv("TUTTI_TEST_NCCL_VERSION");
  *version = text == nullptr ? nccl().version() : std::atoi(text);
  return 0;
}
TUTTI_NCCL const char* ncclGetErrorString(int code) {
  return code == kInvalidUsage ? "invalid usage" : "unknown result code";
}
TUTTI_NCCL const char* ncclGetLastError(void* /*comm*/) { return last_error.c_str(); }
TUTTI_NCCL int ncclGetUniqueId(UniqueId* made) {
  tutti::nccl::UniqueId id;
  const int code = nccl().get_unique_id(id);
  std::memcpy(made->internal, id.bytes.data(), sizeof made->internal);
  return told(code);
}
TUTTI_NCCL int ncclCommInitRankConfig(void** made, int size, UniqueId id, int rank,
                                      Config* config) {
  if (!fits(config)) return refuse("the configuration is not understood");
  if (size != 1 || rank != 0) {
    const char* const debug = std::getenv("NCCL_DEBUG");
    return refuse("this NCCL has communicators of 1 rank, not of " + std::to_string(size) +
                  "; NCCL_DEBUG=" + (debug == nullptr ? "" : debug));
  }
  tutti::nccl::UniqueId its;
  std::memcpy(its.bytes.data(), id.internal, sizeof id.internal);
  return told(nccl().init_rank(reinterpret_cast<Comm&>(*made), size, its, rank));
}
TUTTI_NCCL int ncclCommSplit(void* comm, int color, int key, void** made, Config* config) {
  if (!fits(config)) return refuse("the configuration is not understood");
  return told(nccl().split(comm_of(comm), color, key, reinterpret_cast<Comm&>(*made)));
}
TUTTI_NCCL int ncclCommFinalize(void* comm) { return told(nccl().finalize(comm_of(comm))); }
TUTTI_NCCL int ncclCommDestroy(void* comm) { return told(nccl().destroy(comm_of(comm))); }
TUTTI_NCCL int ncclCommAbort(void* comm) { return told(nccl().abort(comm_of(comm))); }
TUTTI_NCCL int ncclCommGetAsyncError(void* comm, int* error) {
  return told(nccl().async_error(comm_of(comm), *error));
}
TUTTI_NCCL int ncclRedOpCreatePreMulSum(Op* op, void* factor, Type type, int residence,
                                        void* comm) {
  const bool on_device = residence == kFactorOnDevice;
  factors_of_gpus += on_device ? 1 : 0;
  return told(nccl().create_premul_sum(*op, factor, type, on_device, comm_of(comm)));
}
TUTTI_NCCL int ncclRedOpDestroy(Op op, void* comm) {
  return told(nccl().destroy_op(op, comm_of(comm)));
}
TUTTI_NCCL int ncclGroupStart() { return told(nccl().group_start()); }
TUTTI_NCCL int ncclGroupEnd() { return told(nccl().group_end()); }
TUTTI_NCCL int ncclAllReduce(const void* in, void* out, std::size_t count, Type type, Op op,
                             void* comm, void* stream) {
  return ran(nccl().all_reduce(at(in), at(out), count, type, op, comm_of(comm), stream_of(stream)));
}
TUTTI_NCCL int ncclReduce(const void* in, void* out, std::size_t count, Type type, Op op, int root,
                          void* comm, void* stream) {
  return ran(
      nccl().reduce(at(in), at(out), count, type, op, root, comm_of(comm), stream_of(stream)));
}
TUTTI_NCCL int ncclBroadcast(const void* in, void* out, std::size_t count, Type type, int root,
                             void* comm, void* stream) {
  return ran(
      nccl().broadcast(at(in), at(out), count, type, root, comm_of(comm), stream_of(stream)));
}
TUTTI_NCCL int ncclAllGather(const void* in, void* out, std::size_t count, Type type, void* comm,
                             void* stream) {
  return ran(nccl().all_gather(at(in), at(out), count, type, comm_of(comm), stream_of(stream)));
}
TUTTI_NCCL int ncclReduceScatter(const void* in, void* out, std::size_t count, Type type, Op op,
                                 void* comm, void* stream) {
  return ran(
      nccl().reduce_scatter(at(in), at(out), count, type, op, comm_of(comm), stream_of(stream)));
}
// A rank sends nothing to itself: the backend copies that.
TUTTI_NCCL int ncclSend(const void* /*data*/, std::size_t /*count*/, int /*type*/, int /*to*/,
                        void* /*comm*/, void* /*stream*/) {
  return refuse("there is no other rank");
}
TUTTI_NCCL int ncclRecv(void* /*data*/, std::size_t /*count*/, int /*type*/, int /*from*/,
                        void* /*comm*/, void* /*stream*/) {
  return refuse("there is no other rank");
}

/// For tests: the operations that have run and those with a factor on a GPU; the communicators now.
TUTTI_NCCL void tuttiTestNccl(int* run_by_it, int* by_factors_of_gpus, int* alive) {
  const std::lock_guard lock(machine().mutex);
  *run_by_it = operations;
  *by_factors_of_gpus = factors_of_gpus;
  *alive = machine().alive["communicators"];
}

// The library calls the functions as they stand here.
#define TUTTI_AS_CALLED(result, name, parameters)                                 \
  static_assert(tutti::test::SameCall<decltype(tutti::nccl::NcclFunctions::name), \
                                      decltype(&(name))>::value);
TUTTI_NCCL_FUNCTIONS(TUTTI_AS_CALLED)
