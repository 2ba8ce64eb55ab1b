#include <utility>

#include "backend/nccl/functions.hpp"
#include "backend/nccl/real_api.hpp"
#include "base/shown.hpp"

namespace tutti::nccl {
namespace {

void* of(Comm comm) noexcept { return reinterpret_cast<void*>(comm); }
void* of(Stream stream) noexcept { return reinterpret_cast<void*>(stream); }
void* at(Address address) noexcept { return reinterpret_cast<void*>(address); }
int of(Type type) noexcept { return static_cast<int>(type); }
int of(Op op) noexcept { return static_cast<int>(op); }

/// "2.32.3"; versions before 2.9 count otherwise.
std::string shown_version(int version) {
  const int base = version < 10000 ? 1000 : 10000;
  return std::to_string(version / base) + "." + std::to_string(version % base / 100) + "." +
         std::to_string(version % 100);
}

class RealNccl final : public Api {
 public:
  RealNccl(const NcclFunctions& functions, int version, std::string path)
      : f_(functions), version_(version), path_(std::move(path)) {}

  [[nodiscard]] int version() const noexcept override { return version_; }
  [[nodiscard]] std::string about() const override {
    return "NCCL " + shown_version(version_) + ", " + base::shown(path_);
  }
  [[nodiscard]] std::string error_text(int code, Comm comm) const override {
    const char* const text = f_.ncclGetErrorString(code);
    const char* const last = f_.ncclGetLastError(of(comm));
    std::string all = base::shown(text == nullptr ? "" : text) + " (" + std::to_string(code) + ")";
    if (last != nullptr && *last != '\0') all += ": " + base::shown(last, 400);
    return all;
  }

  [[nodiscard]] int get_unique_id(UniqueId& made) noexcept override {
    return f_.ncclGetUniqueId(&made);
  }
  [[nodiscard]] int init_rank(Comm& made, int size, const UniqueId& id,
                              int rank) noexcept override {
    CommConfig config;
    void* comm = nullptr;
    const int code = f_.ncclCommInitRankConfig(&comm, size, id, rank, &config);
    made = static_cast<Comm>(reinterpret_cast<std::uintptr_t>(comm));
    return code;
  }
  [[nodiscard]] int split(Comm comm, int color, int key, Comm& made) noexcept override {
    CommConfig config;
    // NCCL writes it when the split has ended, which may be after this call.
    void** const place = reinterpret_cast<void**>(&made);
    return f_.ncclCommSplit(of(comm), color, key, place, &config);
  }
  [[nodiscard]] int finalize(Comm comm) noexcept override { return f_.ncclCommFinalize(of(comm)); }
  [[nodiscard]] int destroy(Comm comm) noexcept override { return f_.ncclCommDestroy(of(comm)); }
  [[nodiscard]] int abort(Comm comm) noexcept override { return f_.ncclCommAbort(of(comm)); }
  [[nodiscard]] int async_error(Comm comm, int& error) noexcept override {
    return f_.ncclCommGetAsyncError(of(comm), &error);
  }
  [[nodiscard]] int create_premul_sum(Op& made, void* factor, Type type, bool on_device,
                                      Comm comm) noexcept override {
    int op = 0;
    // ncclScalarDevice is 0, ncclScalarHostImmediate 1.
    const int code =
        f_.ncclRedOpCreatePreMulSum(&op, factor, of(type), on_device ? 0 : 1, of(comm));
    made = static_cast<Op>(op);
    return code;
  }
  [[nodiscard]] int destroy_op(Op op, Comm comm) noexcept override {
    return f_.ncclRedOpDestroy(of(op), of(comm));
  }

  [[nodiscard]] int group_start() noexcept override { return f_.ncclGroupStart(); }
  [[nodiscard]] int group_end() noexcept override { return f_.ncclGroupEnd(); }
  [[nodiscard]] int all_reduce(Address in, Address out, std::size_t count, Type type, Op op,
                               Comm comm, Stream stream) noexcept override {
    return f_.ncclAllReduce(at(in), at(out), count, of(type), of(op), of(comm), of(stream));
  }
  [[nodiscard]] int reduce(Address in, Address out, std::size_t count, Type type, Op op, int root,
                           Comm comm, Stream stream) noexcept override {
    return f_.ncclReduce(at(in), at(out), count, of(type), of(op), root, of(comm), of(stream));
  }
  [[nodiscard]] int broadcast(Address in, Address out, std::size_t count, Type type, int root,
                              Comm comm, Stream stream) noexcept override {
    return f_.ncclBroadcast(at(in), at(out), count, of(type), root, of(comm), of(stream));
  }
  [[nodiscard]] int all_gather(Address in, Address out, std::size_t count, Type type, Comm comm,
                               Stream stream) noexcept override {
    return f_.ncclAllGather(at(in), at(out), count, of(type), of(comm), of(stream));
  }
  [[nodiscard]] int reduce_scatter(Address in, Address out, std::size_t count, Type type, Op op,
                                   Comm comm, Stream stream) noexcept override {
    return f_.ncclReduceScatter(at(in), at(out), count, of(type), of(op), of(comm), of(stream));
  }
  [[nodiscard]] int send(Address data, std::size_t count, Type type, int to, Comm comm,
                         Stream stream) noexcept override {
    return f_.ncclSend(at(data), count, of(type), to, of(comm), of(stream));
  }
  [[nodiscard]] int receive(Address data, std::size_t count, Type type, int from, Comm comm,
                            Stream stream) noexcept override {
    return f_.ncclRecv(at(data), count, of(type), from, of(comm), of(stream));
  }

 private:
  NcclFunctions f_;
  int version_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<Api>> real_nccl(void* library, std::string path) {
  NcclFunctions functions;
  Outcome loaded = functions.load(library);
  int version = 0;
  if (functions.ncclGetVersion != nullptr && functions.ncclGetVersion(&version) == 0 &&
      version < kLeastVersion)
    return Outcome(Errc::unsupported,
                   "it is NCCL " + shown_version(version) + "; 2.19 or later is needed");
  if (!loaded.ok()) return loaded;
  return std::unique_ptr<Api>(std::make_unique<RealNccl>(functions, version, std::move(path)));
}

}  // namespace tutti::nccl
