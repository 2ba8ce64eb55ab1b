// An NCCL whose communicators have one rank, for TUTTI_NCCL_LIBRARY: what loads a real one is
// tested with it on mock_cuda_driver.cpp, whose GPUs are memory of the host and whose streams do
// their work at once. As with NCCL, communicators are made, split and finalized after the call, and
// a group of calls runs at its end. TUTTI_TEST_NCCL_VERSION: what ncclGetVersion tells.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/nccl/functions.hpp"
#include "support/host_kernels.hpp"
#include "support/mock_nccl_abi.hpp"
#include "support/same_call.hpp"

namespace {

using namespace tutti::test::mock_nccl;

constexpr char kIdText[] = "an id of the mock of NCCL";

/// By the number of a type: what multiplies it by a factor. Products of integers need no sign.
constexpr const char* kScales[] = {
    "tutti_scale_uint8",    "tutti_scale_uint8",       "tutti_scale_uint32",
    "tutti_scale_uint32",   "tutti_scale_uint64",      "tutti_scale_uint64",
    "tutti_scale_float16",  "tutti_scale_float32",     "tutti_scale_float64",
    "tutti_scale_bfloat16", "tutti_scale_float8_e4m3", "tutti_scale_float8_e5m2"};

/// Of a PREMUL_SUM: its value, or where it is when the sum runs.
struct Factor {
  std::vector<char> value;
  const void* place = nullptr;
};
struct Comm {
  int looks = 1;  ///< until ncclCommGetAsyncError says that the last call has ended
  void** split_to = nullptr;
  bool split_off = false;  ///< into no group
  std::map<int, Factor> ops;
  int next_op = kFirstMadeOp;
};

std::atomic<int> operations{0};
std::atomic<int> communicators{0};
std::atomic<int> factors_of_gpus{0};
thread_local int depth = 0;
thread_local std::vector<std::function<void()>> grouped;
thread_local std::string last_error;

int refuse(std::string why) {
  last_error = std::move(why);
  return kInvalidUsage;
}

Comm* add() {
  ++communicators;
  return new Comm;
}
int remove(void* comm) {
  delete static_cast<Comm*>(comm);
  --communicators;
  return 0;
}

bool fits(const Config* config) {
  return config != nullptr && config->size == sizeof(Config) && config->magic == kMagic &&
         config->version == kConfigVersion && config->blocking == 0 &&
         config->cgaClusterSize == kUndefined && config->minCTAs == kUndefined &&
         config->maxCTAs == kUndefined && config->netName == nullptr &&
         config->splitShare == kUndefined;
}

void run(const char* in, char* out, std::size_t count, const char* scale, const Factor* factor) {
  ++operations;
  if (factor == nullptr) {
    if (in != out) std::memmove(out, in, count * tutti::cuda::kernels::host_kernel_bytes(scale));
    return;
  }
  tutti::cuda::kernels::ReduceArguments all;
  all.to = out;
  all.sources[0] = in;
  all.count = count;
  all.k = 1;
  all.factors = factor->place;
  if (!factor->value.empty()) std::memcpy(all.factor, factor->value.data(), factor->value.size());
  tutti::cuda::kernels::host_kernel(scale)(all);
}

/// Any operation of one rank: but for PREMUL_SUM, what comes out is what goes in.
int queue(const void* in, void* out, std::size_t count, int type, int op, int root, void* handle) {
  const auto* const comm = static_cast<const Comm*>(handle);
  if (comm == nullptr || comm->looks != 0) return refuse("the communicator is not ready");
  if (type < 0 || type >= static_cast<int>(std::size(kScales)))
    return refuse("there is no such type");
  if (in == nullptr || out == nullptr) return refuse("a tensor is nowhere");
  if (root != 0) return refuse("the root is not in the communicator");
  const auto at = comm->ops.find(op);
  if (op >= kFirstMadeOp && at == comm->ops.end()) return refuse("there is no such op");
  std::function<void()> call = [=, factor = op < kFirstMadeOp ? Factor() : at->second] {
    run(static_cast<const char*>(in), static_cast<char*>(out), count, kScales[type],
        op < kFirstMadeOp ? nullptr : &factor);
  };
  if (depth == 0)
    call();
  else
    grouped.push_back(std::move(call));
  return 0;
}

}  // namespace

#define TUTTI_NCCL extern "C" __attribute__((visibility("default")))

TUTTI_NCCL int ncclGetVersion(int* version) {
  const char* const told = std::getenv("TUTTI_TEST_NCCL_VERSION");
  *version = told == nullptr ? 23203 : std::atoi(told);
  return 0;
}
TUTTI_NCCL const char* ncclGetErrorString(int code) {
  return code == kInvalidUsage ? "invalid usage" : "unknown result code";
}
TUTTI_NCCL const char* ncclGetLastError(void* /*comm*/) { return last_error.c_str(); }
TUTTI_NCCL int ncclGetUniqueId(UniqueId* made) {
  std::memcpy(made->internal, kIdText, sizeof kIdText);
  return 0;
}
TUTTI_NCCL int ncclCommInitRankConfig(void** made, int size, UniqueId id, int rank,
                                      Config* config) {
  if (std::memcmp(id.internal, kIdText, sizeof kIdText) != 0) return refuse("the id is another");
  if (!fits(config)) return refuse("the configuration is not understood");
  if (size != 1 || rank != 0) {
    const char* const debug = std::getenv("NCCL_DEBUG");
    return refuse("this NCCL has communicators of 1 rank, not of " + std::to_string(size) +
                  "; NCCL_DEBUG=" + (debug == nullptr ? "" : debug));
  }
  *made = add();
  return kInProgress;
}
TUTTI_NCCL int ncclCommSplit(void* handle, int color, int /*key*/, void** made, Config* config) {
  auto* const comm = static_cast<Comm*>(handle);
  if (comm == nullptr || comm->looks != 0) return refuse("the communicator is not ready");
  if (!fits(config)) return refuse("the configuration is not understood");
  comm->split_to = made;
  comm->split_off = color == kNoColor;
  comm->looks = 1;
  return kInProgress;
}
TUTTI_NCCL int ncclCommFinalize(void* comm) {
  static_cast<Comm*>(comm)->looks = 1;
  return kInProgress;
}
TUTTI_NCCL int ncclCommDestroy(void* comm) {
  if (static_cast<Comm*>(comm)->looks != 0) return refuse("the communicator has work to do");
  return remove(comm);
}
TUTTI_NCCL int ncclCommAbort(void* comm) { return remove(comm); }
TUTTI_NCCL int ncclCommGetAsyncError(void* handle, int* error) {
  auto* const comm = static_cast<Comm*>(handle);
  const bool busy = comm->looks > 0 && comm->looks-- > 0;
  *error = busy ? kInProgress : 0;
  if (!busy && comm->split_to != nullptr) {
    Comm* const part = comm->split_off ? nullptr : add();
    if (part != nullptr) part->looks = 0;
    *std::exchange(comm->split_to, nullptr) = part;
  }
  return 0;
}
TUTTI_NCCL int ncclRedOpCreatePreMulSum(int* op, void* factor, int type, int residence,
                                        void* handle) {
  auto* const comm = static_cast<Comm*>(handle);
  if (type < 0 || type >= static_cast<int>(std::size(kScales)))
    return refuse("there is no such type");
  Factor its;
  const auto* const bytes = static_cast<const char*>(factor);
  if (residence == kFactorOnDevice) {
    its.place = factor;
    ++factors_of_gpus;
  } else {
    its.value.assign(bytes, bytes + tutti::cuda::kernels::host_kernel_bytes(kScales[type]));
  }
  *op = comm->next_op++;
  comm->ops[*op] = std::move(its);
  return 0;
}
TUTTI_NCCL int ncclRedOpDestroy(int op, void* comm) {
  return static_cast<Comm*>(comm)->ops.erase(op) == 1 ? 0 : refuse("there is no such op");
}
TUTTI_NCCL int ncclGroupStart() {
  ++depth;
  return 0;
}
TUTTI_NCCL int ncclGroupEnd() {
  if (depth == 0) return refuse("no group of calls was begun");
  if (--depth > 0) return 0;
  for (const std::function<void()>& call : std::exchange(grouped, {})) call();
  return 0;
}
TUTTI_NCCL int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op,
                             void* comm, void* /*stream*/) {
  return queue(in, out, count, type, op, 0, comm);
}
TUTTI_NCCL int ncclReduce(const void* in, void* out, std::size_t count, int type, int op, int root,
                          void* comm, void* /*stream*/) {
  return queue(in, out, count, type, op, root, comm);
}
TUTTI_NCCL int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root,
                             void* comm, void* /*stream*/) {
  return queue(in, out, count, type, 0, root, comm);
}
TUTTI_NCCL int ncclAllGather(const void* in, void* out, std::size_t count, int type, void* comm,
                             void* /*stream*/) {
  return queue(in, out, count, type, 0, 0, comm);
}
TUTTI_NCCL int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op,
                                 void* comm, void* /*stream*/) {
  return queue(in, out, count, type, op, 0, comm);
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
  *run_by_it = operations;
  *by_factors_of_gpus = factors_of_gpus;
  *alive = communicators;
}

// The library calls the functions as they stand here.
#define TUTTI_AS_CALLED(name) \
  static_assert(              \
      tutti::test::SameCall<decltype(tutti::nccl::NcclFunctions::name), decltype(&(name))>::value)
TUTTI_AS_CALLED(ncclGetVersion);
TUTTI_AS_CALLED(ncclGetErrorString);
TUTTI_AS_CALLED(ncclGetLastError);
TUTTI_AS_CALLED(ncclGetUniqueId);
TUTTI_AS_CALLED(ncclCommInitRankConfig);
TUTTI_AS_CALLED(ncclCommSplit);
TUTTI_AS_CALLED(ncclCommFinalize);
TUTTI_AS_CALLED(ncclCommDestroy);
TUTTI_AS_CALLED(ncclCommAbort);
TUTTI_AS_CALLED(ncclCommGetAsyncError);
TUTTI_AS_CALLED(ncclRedOpCreatePreMulSum);
TUTTI_AS_CALLED(ncclRedOpDestroy);
TUTTI_AS_CALLED(ncclGroupStart);
TUTTI_AS_CALLED(ncclGroupEnd);
TUTTI_AS_CALLED(ncclAllReduce);
TUTTI_AS_CALLED(ncclReduce);
TUTTI_AS_CALLED(ncclBroadcast);
TUTTI_AS_CALLED(ncclAllGather);
TUTTI_AS_CALLED(ncclReduceScatter);
TUTTI_AS_CALLED(ncclSend);
TUTTI_AS_CALLED(ncclRecv);
