#include "backend/mpi/real_api.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/mpi/abi.hpp"
#include "backend/mpi/functions.hpp"
#include "base/shown.hpp"

namespace tutti::mpi {
namespace {

/// Between a handle of the library and ours.
template <class Handle>
Handle handle_of(std::uintptr_t word) noexcept {
  if constexpr (sizeof(Handle) == sizeof(int))
    return static_cast<Handle>(static_cast<std::intptr_t>(word));
  else
    return reinterpret_cast<Handle>(word);
}
template <class Handle>
std::uintptr_t word_of(Handle handle) noexcept {
  if constexpr (sizeof(Handle) == sizeof(int))
    return static_cast<std::uintptr_t>(static_cast<std::intptr_t>(handle));
  else
    return reinterpret_cast<std::uintptr_t>(handle);
}

/// MPI's functions with handles of one type.
template <class Handle>
class RealApi final : public Api {
 public:
  RealApi(const Functions<Handle>& functions, const AbiConstants& abi, const AbiHandles& handles,
          LibraryInfo info)
      : f_(functions), abi_(abi), handles_(handles), info_(std::move(info)) {}

  [[nodiscard]] const LibraryInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::string error_text(int code) const override {
    char text[8192] = {};
    int length = 0;
    if (f_.MPI_Error_string(code, text, &length) != 0) return "error " + std::to_string(code);
    return base::shown(text);
  }

  std::optional<bool> cuda_aware() noexcept override {
    // MPICH ends the process if it is asked before MPI_Init.
    if (f_.MPIX_Query_cuda_support == nullptr || (&abi_ != &kOpenMpiAbi && !initialized()))
      return std::nullopt;
    return f_.MPIX_Query_cuda_support() != 0;
  }

  bool initialized() noexcept override { return flag(f_.MPI_Initialized); }
  bool finalized() noexcept override { return flag(f_.MPI_Finalized); }
  int init(Threading wanted, Threading& provided) noexcept override {
    int level = 0;
    const int code = f_.MPI_Init_thread(nullptr, nullptr,
                                        abi_.threading[static_cast<std::size_t>(wanted)], &level);
    provided = threading_of(level);
    return code;
  }
  int query_threading(Threading& provided) noexcept override {
    int level = 0;
    const int code = f_.MPI_Query_thread(&level);
    provided = threading_of(level);
    return code;
  }
  bool is_main_thread() noexcept override { return flag(f_.MPI_Is_thread_main); }
  int finalize() noexcept override { return f_.MPI_Finalize(); }

  Comm world() noexcept override { return Comm{handles_.world}; }
  Comm self() noexcept override { return Comm{handles_.self}; }
  bool is_null(Comm comm) noexcept override { return of(comm) == handle_of<Handle>(handles_.none); }
  int rank(Comm comm, int& rank) noexcept override { return f_.MPI_Comm_rank(of(comm), &rank); }
  int size(Comm comm, int& size) noexcept override { return f_.MPI_Comm_size(of(comm), &size); }
  int iduplicate(Comm comm, Comm& made, Request& request) noexcept override {
    // MPI may write the handle when the request is done: into the word itself, of which an int is
    // the first half.
    made = Comm{0};
    return making(request, [&](Handle* out) {
      return f_.MPI_Comm_idup(of(comm), reinterpret_cast<Handle*>(&made), out);
    });
  }
  int split(Comm comm, int color, int key, Comm& made) noexcept override {
    return making(made, [&](Handle* out) {
      return f_.MPI_Comm_split(of(comm), color < 0 ? abi_.undefined : color, key, out);
    });
  }
  int create_group(Comm parent, std::span<const int> ranks, int tag, Comm& made) noexcept override {
    Handle all{};
    Handle some{};
    int code = f_.MPI_Comm_group(of(parent), &all);
    if (code != 0) return code;
    code = f_.MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
    if (code == 0) {
      code = making(
          made, [&](Handle* out) { return f_.MPI_Comm_create_group(of(parent), some, tag, out); });
      (void)f_.MPI_Group_free(&some);
    }
    (void)f_.MPI_Group_free(&all);
    return code;
  }
  int free(Comm& comm) noexcept override {
    return changing(comm, [&](Handle* handle) { return f_.MPI_Comm_free(handle); });
  }
  int return_errors(Comm comm) noexcept override {
    return f_.MPI_Comm_set_errhandler(of(comm), handle_of<Handle>(handles_.errors_return));
  }
  int largest_tag() noexcept override {
    int* value = nullptr;
    int found = 0;
    constexpr int kLeast = 32767;  // what MPI promises
    if (f_.MPI_Comm_get_attr(of(world()), abi_.tag_ub, &value, &found) != 0 || found == 0)
      return kLeast;
    return std::max(*value, kLeast);
  }

  bool builtin(DType dtype, Type& type) noexcept override {
    type = Type{handles_.types[static_cast<std::size_t>(dtype)]};
    return static_cast<std::uintptr_t>(type) != 0;
  }
  Type byte() noexcept override { return Type{handles_.byte}; }
  int make_bytes(std::int64_t bytes, Type& made) noexcept override {
    constexpr std::int64_t kChunk = std::int64_t{1} << 30;
    const Handle byte = of(this->byte());
    Handle type{};
    int code = 0;
    if (bytes <= std::numeric_limits<int>::max()) {
      code = f_.MPI_Type_contiguous(static_cast<int>(bytes), byte, &type);
    } else {
      Handle chunk{};
      code = f_.MPI_Type_contiguous(static_cast<int>(kChunk), byte, &chunk);
      if (code != 0) return code;
      const int counts[] = {static_cast<int>(bytes / kChunk), static_cast<int>(bytes % kChunk)};
      const std::intptr_t offsets[] = {0, bytes / kChunk * kChunk};
      const Handle types[] = {chunk, byte};
      code = f_.MPI_Type_create_struct(counts[1] == 0 ? 1 : 2, counts, offsets, types, &type);
      (void)f_.MPI_Type_free(&chunk);
    }
    if (code == 0) code = f_.MPI_Type_commit(&type);
    made = Type{word_of(type)};
    return code;
  }
  int free(Type& type) noexcept override {
    return changing(type, [&](Handle* handle) { return f_.MPI_Type_free(handle); });
  }
  Op builtin(BuiltinOp op) noexcept override {
    return Op{handles_.ops[static_cast<std::size_t>(op)]};
  }
  int make_op(UserFunction function, Op& made) noexcept override {
    return making(made, [&](Handle* out) { return f_.MPI_Op_create(function, 1, out); });
  }
  int free(Op& op) noexcept override {
    return changing(op, [&](Handle* handle) { return f_.MPI_Op_free(handle); });
  }

  const void* in_place() noexcept override { return reinterpret_cast<void*>(abi_.in_place); }
  int ibarrier(Comm comm, Request& request) noexcept override {
    return making(request, [&](Handle* out) { return f_.MPI_Ibarrier(of(comm), out); });
  }
  int ibroadcast(void* data, int count, Type type, int root, Comm comm,
                 Request& request) noexcept override {
    return making(request, [&](Handle* out) {
      return f_.MPI_Ibcast(data, count, of(type), root, of(comm), out);
    });
  }
  int iall_reduce(const void* in, void* out, int count, Type type, Op op, Comm comm,
                  Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Iallreduce(in, out, count, of(type), of(op), of(comm), made);
    });
  }
  int ireduce(const void* in, void* out, int count, Type type, Op op, int root, Comm comm,
              Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Ireduce(in, out, count, of(type), of(op), root, of(comm), made);
    });
  }
  int iscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
            Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Iscan(in, out, count, of(type), of(op), of(comm), made);
    });
  }
  int iexscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
              Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Iexscan(in, out, count, of(type), of(op), of(comm), made);
    });
  }
  int ireduce_scatter(const void* in, void* out, int count, Type type, Op op, Comm comm,
                      Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Ireduce_scatter_block(in, out, count, of(type), of(op), of(comm), made);
    });
  }
  int ireduce_scatter_v(const void* in, void* out, const int* counts, Type type, Op op, Comm comm,
                        Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Ireduce_scatter(in, out, counts, of(type), of(op), of(comm), made);
    });
  }
  int iall_gather(const void* in, void* out, int count, Type type, Comm comm,
                  Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Iallgather(in, count, of(type), out, count, of(type), of(comm), made);
    });
  }
  int iall_gather_v(const void* in, int in_count, void* out, const int* counts,
                    const int* displacements, Type type, Comm comm,
                    Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Iallgatherv(in, in_count, of(type), out, counts, displacements, of(type),
                                of(comm), made);
    });
  }
  int igather(const void* in, void* out, int count, Type type, int root, Comm comm,
              Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Igather(in, count, of(type), out, count, of(type), root, of(comm), made);
    });
  }
  int iscatter(const void* in, void* out, int count, Type type, int root, Comm comm,
               Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Iscatter(in, count, of(type), out, count, of(type), root, of(comm), made);
    });
  }
  int iall_to_all(const void* in, void* out, int count, Type type, Comm comm,
                  Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Ialltoall(in, count, of(type), out, count, of(type), of(comm), made);
    });
  }
  int isend(const void* data, int count, Type type, int to, int tag, Comm comm,
            Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Isend(data, count, of(type), to, tag, of(comm), made);
    });
  }
  int ireceive(void* data, int count, Type type, int from, int tag, Comm comm,
               Request& request) noexcept override {
    return making(request, [&](Handle* made) {
      return f_.MPI_Irecv(data, count, of(type), from < 0 ? abi_.any_source : from, tag, of(comm),
                          made);
    });
  }
  int improbe(int from, int tag, Comm comm, bool& found, Matched& message,
              Received& described) noexcept override {
    alignas(16) std::byte status[kStatusBytes];
    int flag = 0;
    const int code = making(message, [&](Handle* made) {
      return f_.MPI_Improbe(from < 0 ? abi_.any_source : from, tag < 0 ? abi_.any_tag : tag,
                            of(comm), &flag, made, status);
    });
    found = code == 0 && flag != 0;
    return found ? describe(status, described) : code;
  }
  int ireceive(void* data, int count, Type type, Matched& message,
               Request& request) noexcept override {
    return changing(message, [&](Handle* matched) {
      return making(request, [&](Handle* made) {
        return f_.MPI_Imrecv(data, count, of(type), matched, made);
      });
    });
  }
  int test(Request& request, bool& done, Received* received) noexcept override {
    alignas(16) std::byte status[kStatusBytes];
    void* const into = received == nullptr ? reinterpret_cast<void*>(abi_.status_ignore) : status;
    int flag = 0;
    const int code =
        changing(request, [&](Handle* handle) { return f_.MPI_Test(handle, &flag, into); });
    done = flag != 0;
    if (code != 0 || !done || received == nullptr) return code;
    int cancelled = 0;
    const int asked = f_.MPI_Test_cancelled(status, &cancelled);
    return asked != 0 || cancelled != 0 ? asked : describe(status, *received);
  }
  int cancel(Request& request, bool& done, Received& received) noexcept override {
    done = false;
    const int code = changing(request, [&](Handle* handle) { return f_.MPI_Cancel(handle); });
    return code != 0 ? code : test(request, done, &received);
  }

 private:
  template <class Word>
  [[nodiscard]] static Handle of(Word word) noexcept {
    return handle_of<Handle>(static_cast<std::uintptr_t>(word));
  }
  /// Reads an MPI_Status.
  int describe(const std::byte* status, Received& received) noexcept {
    std::memcpy(&received.source, status + abi_.status_source, sizeof(received.source));
    std::memcpy(&received.tag, status + abi_.status_source + sizeof(int), sizeof(received.tag));
    return f_.MPI_Get_elements_x(status, of(byte()), &received.bytes);
  }
  /// A call that makes a handle.
  template <class Word, class Call>
  static int making(Word& made, const Call& call) noexcept {
    Handle handle{};
    const int code = call(&handle);
    made = Word{word_of(handle)};
    return code;
  }
  /// A call that may change it, for instance to none.
  template <class Word, class Call>
  static int changing(Word& word, const Call& call) noexcept {
    Handle handle = of(word);
    const int code = call(&handle);
    word = Word{word_of(handle)};
    return code;
  }
  [[nodiscard]] static bool flag(int (*function)(int*)) noexcept {
    int value = 0;
    return function(&value) == 0 && value != 0;
  }
  [[nodiscard]] Threading threading_of(int level) const noexcept {
    Threading threading = Threading::single;
    for (std::size_t i = 0; i < abi_.threading.size(); ++i) {
      if (level >= abi_.threading[i]) threading = static_cast<Threading>(i);
    }
    return threading;
  }

  const Functions<Handle> f_;
  const AbiConstants& abi_;
  const AbiHandles handles_;
  const LibraryInfo info_;
};

Outcome lacks(const char* symbol) {
  return Outcome(Errc::unsupported, std::string("it has no ") + symbol);
}

Result<AbiHandles> open_mpi_handles(void* library) {
  const OpenMpiSymbols symbols;
  AbiHandles handles;
  const char* missing = nullptr;
  // A program that is linked with the library has copies of its data, which the library uses then:
  // the linker's order finds those.
  constexpr const char* kFunction = "MPI_Init_thread";
  void* const linked = ::dlsym(RTLD_DEFAULT, kFunction);
  void* const scope = linked == ::dlsym(library, kFunction) ? RTLD_DEFAULT : library;
  const auto find = [&](const char* symbol, std::uintptr_t& word) {
    if (symbol == nullptr) return;
    word = reinterpret_cast<std::uintptr_t>(::dlsym(scope, symbol));
    if (word == 0) missing = symbol;
  };
  find(symbols.world, handles.world);
  find(symbols.self, handles.self);
  find(symbols.none, handles.none);
  find(symbols.errors_return, handles.errors_return);
  find(symbols.byte, handles.byte);
  for (std::size_t i = 0; i < handles.ops.size(); ++i) find(symbols.ops[i], handles.ops[i]);
  for (std::size_t i = 0; i < handles.types.size(); ++i) find(symbols.types[i], handles.types[i]);
  if (missing != nullptr) return lacks(missing);
  return handles;
}

/// "Open MPI v4.1.4, package: ..." -> "Open MPI v4.1.4"; of MPICH's table the first line or two.
std::string first_words(std::string text) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  text = text.substr(0, text.find(", package"));
  const std::string head = "MPICH Version:";
  if (text.starts_with(head)) {
    text = text.substr(0, text.find('\n'));
    const std::size_t number = text.find_first_not_of(' ', head.size());
    text = "MPICH " + (number == std::string::npos ? std::string() : text.substr(number));
  }
  return base::shown_on_line(text.substr(0, text.find('\n')), 120);
}

template <class Handle>
Result<std::unique_ptr<Api>> api_of(void* library, std::string path, const AbiConstants& abi,
                                    AbiHandles handles) {
  Functions<Handle> functions;
  if (Outcome s = functions.load(library); !s.ok()) return s;
  LibraryInfo info;
  info.path = std::move(path);
  info.abi = abi.name;
  char text[8192] = {};  // MPI_MAX_LIBRARY_VERSION_STRING of the ABI that has the longest
  int length = 0;
  if (functions.MPI_Get_library_version(text, &length) == 0) info.name = first_words(text);
  // MPICH's and Intel's headers of the standard ABI give ERRORS_RETURN and ERRORS_ABORT the other
  // way round.
  if (&abi == &kStandardAbi && info.name.find("Intel") != std::string::npos)
    handles.errors_return = kIntelStandardErrorsReturn;
  (void)functions.MPI_Get_version(&info.major, &info.minor);
  return std::unique_ptr<Api>(new RealApi<Handle>(functions, abi, handles, std::move(info)));
}

}  // namespace

Result<std::unique_ptr<Api>> real_api(void* library, std::string path) {
  if (::dlsym(library, "ompi_mpi_comm_world") != nullptr) {
    Result<AbiHandles> handles = open_mpi_handles(library);
    if (!handles) return handles.status();
    return api_of<void*>(library, std::move(path), kOpenMpiAbi, *handles);
  }
  if (::dlsym(library, "MPI_Init_thread") == nullptr) return lacks("MPI_Init_thread");
  // MPI 5: a library of another ABI answers -1.
  using AbiVersion = int (*)(int*, int*);
  int major = -1;
  int minor = -1;
  if (const auto ask = reinterpret_cast<AbiVersion>(::dlsym(library, "MPI_Abi_get_version"));
      ask != nullptr && ask(&major, &minor) == 0 && major >= 1)
    return api_of<void*>(library, std::move(path), kStandardAbi, kStandardHandles);
  return api_of<int>(library, std::move(path), kMpichAbi, kMpichHandles);
}

}  // namespace tutti::mpi
