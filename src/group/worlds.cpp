#include "group/worlds.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <numeric>
#include <utility>

#include <tutti/backend/group_access.hpp>
#include <tutti/init.hpp>
#include <tutti/store.hpp>

#include "backend/native/native_backend.hpp"
#include "base/forks.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "base/received_errc.hpp"
#include "base/shown.hpp"
#include "cuda/kernels/kernels.hpp"
#include "cuda/library.hpp"
#include "gpu/gpu_backend.hpp"
#include "group/per_device_backend.hpp"
#include "group/plugins.hpp"
#include "store/job_secret.hpp"

namespace tutti {
inline namespace v0 {
namespace {

/// The backends of this library, the default first, and those that programs have registered.
struct Known {
  base::ForkMutex mutex;
  std::vector<BackendFactory> factories{native::factory()};

  /// Under the mutex.
  [[nodiscard]] const BackendFactory* find(std::string_view name) const {
    const auto at = std::ranges::find(factories, name, &BackendFactory::name);
    return at == factories.end() ? nullptr : &*at;
  }
};

Known& known() {
  static Known* const kKnown = new Known;  // never destroyed: used as long as there are threads
  return *kKnown;
}

/// A copy: a backend's function may take long, and other backends may be registered meanwhile.
std::vector<BackendFactory> factories() {
  const std::lock_guard lock(known().mutex);
  return known().factories;
}

std::optional<BackendFactory> known_factory(std::string_view name) {
  const std::lock_guard lock(known().mutex);
  const BackendFactory* const found = known().find(name);
  return found == nullptr ? std::nullopt : std::optional<BackendFactory>(*found);
}

/// A plug-in is loaded when it is asked for by its name, and stays.
std::optional<BackendFactory> factory_of(std::string_view name) {
  if (auto found = known_factory(name)) return found;
  BackendFactory loaded = group::load_plugin(name);
  if (loaded.name.empty()) return std::nullopt;
  const std::lock_guard lock(known().mutex);
  if (known().find(name) == nullptr) known().factories.push_back(loaded);
  return loaded;
}

constexpr std::string_view kNccl = "nccl";

/// The version of NCCL that groups may choose; 0: there is none.
int nccl_version() {
  const std::optional<BackendFactory> found = factory_of(kNccl);
  return found && found->make_gpu_group && found->version ? found->version() : 0;
}

std::string missing(const BackendFactory& factory) {
  return factory.missing ? factory.missing() : std::string();
}

[[noreturn]] void refuse(const std::string& text) {
  raise(Outcome(Errc::invalid_argument, "register_backend: " + text));
}

// Stands before the first text that a rank gives to the others.
constexpr std::string_view kHead = "backend ";

/// The head of a rank's first text, before the text of its backend.
struct Head {
  Trust trust = Trust::none;
  std::string backend;
  int nccl = 0;  ///< version of NCCL that its groups may choose; 0: none

  [[nodiscard]] std::string text() const {
    return std::string(kHead) + static_cast<char>('0' + static_cast<int>(trust)) + tail();
  }
  [[nodiscard]] std::string tail() const {
    return backend + (nccl == 0 ? "" : '\t' + std::to_string(nccl)) + '\n';
  }
};

// Stands in place of the head in the text of a rank that cannot make the world; its error follows.
constexpr std::string_view kGivesUp = "failed ";

std::string failure_text(const Outcome& why) {
  return std::string(kGivesUp) + std::to_string(static_cast<int>(why.code())) + ' ' +
         std::string(why.message());
}

Outcome failure_in(const std::string& text, int rank) {
  int code = 0;
  const char* const end = text.data() + text.size();
  const char* const after = std::from_chars(text.data() + kGivesUp.size(), end, code).ptr;
  std::string_view why(after, end);
  if (why.starts_with(' ')) why.remove_prefix(1);
  return Outcome(base::received_errc(code),
                 "rank " + std::to_string(rank) + " has given up: " + base::shown(why))
      .with_culprit(rank);
}

/// Removes the heads from the texts of all ranks; disagreement if a rank has another backend. Sets
/// `ours.nccl` to 0 if the ranks have different versions, and `ours.trust` to the least of all.
Outcome check_heads(std::vector<std::string>& texts, Head& ours, int rank) {
  const std::string mine = ours.tail();
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const std::size_t end = texts[r].find('\n');
    if (texts[r].starts_with(kGivesUp)) return failure_in(texts[r], static_cast<int>(r));
    if (!texts[r].starts_with(kHead) || end == std::string::npos || end == kHead.size()) {
      return Outcome(Errc::store, "the address of rank " + std::to_string(r) +
                                      " is not understood; do all ranks run the "
                                      "same version of tutti?");
    }
    const int trust = texts[r][kHead.size()] - '0';
    ours.trust = static_cast<Trust>(std::clamp(trust, 0, static_cast<int>(ours.trust)));
    const std::string line = texts[r].substr(kHead.size() + 1, end - kHead.size());
    const std::string theirs = line.substr(0, line.find_first_of("\t\n"));
    if (line != mine && ours.nccl != 0) {
      ours.nccl = 0;
      base::log(base::Level::info, "rank " + std::to_string(rank) +
                                       ": tensors of GPUs go to native, not to NCCL: rank " +
                                       std::to_string(r) +
                                       " has no NCCL of this version, no GPU or another backend");
    }
    if (theirs != ours.backend) {
      return Outcome(Errc::disagreement, "settings differ: rank " + std::to_string(rank) +
                                             " wants the backend '" + ours.backend + "' and rank " +
                                             std::to_string(r) + " '" + base::shown(theirs) +
                                             "' (TUTTI_BACKEND); give all ranks the same");
    }
    texts[r].erase(0, end + 1);
  }
  return {};
}

/// How a group that has chosen NCCL gets its group there.
gpu::NcclOptions nccl_options(const Config& config) {
  gpu::NcclOptions nccl;
  nccl.name = kNccl;
  nccl.make = [config, make = factory_of(kNccl)->make_gpu_group](Backend* cpus,
                                                                 const std::string& group) {
    WorldOptions options;
    options.identity.rank = cpus->rank();
    options.identity.size = cpus->size();
    options.name = group;
    options.config = config;
    return make(cpus, options);
  };
  return nccl;
}

}  // namespace

void register_backend(BackendFactory factory) {
  if (factory.name.empty() || factory.name.find('\n') != std::string::npos)
    refuse("a name has at least one letter and one line");
  if (!factory.make_world) refuse("'" + factory.name + "' has no make_world");
  const std::lock_guard lock(known().mutex);
  if (known().find(factory.name) != nullptr)
    refuse("there is a backend '" + base::shown(factory.name) + "' already; choose another name");
  known().factories.push_back(std::move(factory));
}

std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const std::string& name : group::plugin_names()) (void)factory_of(name);
  for (const BackendFactory& factory : factories()) {
    if (missing(factory).empty()) names.push_back(factory.name);
  }
  return names;
}

Result<std::optional<LaunchCommand>> launch_command(std::string_view backend, int ranks) {
  if (Outcome status = group::check_backend(backend); !status.ok()) return status;
  const BackendFactory factory = *group::find_backend(backend);
  if (!factory.launch) return std::optional<LaunchCommand>();
  Result<LaunchCommand> command = factory.launch(ranks);
  if (!command) return command.status();
  return std::optional<LaunchCommand>(std::move(*command));
}

bool is_available(std::string_view backend) noexcept { return group::check_backend(backend).ok(); }

std::string about_backend(std::string_view name) {
  const std::optional<BackendFactory> found = factory_of(name);
  return found && found->about && missing(*found).empty() ? found->about() : std::string();
}

bool keeps_promise(std::string_view backend, Promise promise) {
  Result<group::BackendConfig> backends = group::backend_config_of(backend);
  if (!backends) return false;
  if (!backends->cuda.empty())
    return keeps_promise(backends->cpu, promise) && keeps_promise(backends->cuda, promise);
  if (backends->agreed && cuda::has_gpu() && nccl_version() != 0 && !keeps_promise(kNccl, promise))
    return false;
  const std::optional<BackendFactory> found = factory_of(backends->cpu);
  if (!found) return false;
  const auto row = std::ranges::find(found->promises, promise, &PromiseRow::promise);
  return row != found->promises.end() && row->kept;
}

std::string why_unavailable(std::string_view backend) {
  return std::string(group::check_backend(backend).message());
}

bool is_initialized() noexcept { return group::worlds_alive() > 0; }

}  // namespace v0
}  // namespace tutti

namespace tutti::group {

std::optional<BackendFactory> find_backend(std::string_view name) {
  Result<BackendConfig> backends = backend_config_of(name);
  return backends ? factory_of(backends->cpu) : std::nullopt;
}

std::string why_missing(std::string_view name) {
  const std::optional<BackendFactory> found = factory_of(name);
  return found ? missing(*found) : why_no_plugin(name);
}

namespace {

Outcome check_one(std::string_view name) {
  const std::string why = why_missing(name);
  if (why.empty()) return {};
  std::string list;
  for (const std::string& one : available_backends()) list += (list.empty() ? "" : ", ") + one;
  return Outcome(Errc::invalid_argument, "no world can be made on the backend '" +
                                             base::shown(name) + "' (TUTTI_BACKEND): " + why +
                                             "; available: " + list);
}

}  // namespace

Outcome check_backend(std::string_view name) {
  Result<BackendConfig> backends = backend_config_of(name);
  if (!backends) return backends.status();
  if (Outcome s = check_one(backends->cpu); !s.ok() || backends->cuda.empty()) return s;
  if (Outcome s = check_one(backends->cuda); !s.ok()) return s;
  if (backends->cpu == native::kName && factory_of(backends->cuda)->make_gpu_group) return {};
  return Outcome(Errc::invalid_argument,
                 "the backend '" + base::shown(name) +
                     "' (TUTTI_BACKEND): 'native' takes the tensors of the CPU there, and only a "
                     "backend for GPUs ('nccl') those of cuda");
}

Outcome check_backend(const Config& config) {
  if (Outcome s = check_backend(config.backend); !s.ok() || !config.tls) return s;
  const BackendConfig backends = backend_config_of(config.backend).value();
  for (const std::string& name : {backends.cpu, backends.cuda}) {
    if (name.empty() || keeps_promise(name, Promise::encrypted)) continue;
    return Outcome(Errc::invalid_argument,
                   "the backend '" + base::shown(name) +
                       "' (TUTTI_BACKEND) does not encrypt, but TUTTI_TLS is 1; choose "
                       "'native', or unset TUTTI_TLS if only the job reaches its network");
  }
  return {};
}

Result<ProcessGroup> make_world(WorldOptions options, const NamedExchange& exchange,
                                transport::FirstLost first_lost) {
  if (Outcome s = check_backend(options.config); !s.ok()) return s;
  const BackendConfig backends = backend_config_of(options.config.backend).value();
  const BackendFactory factory = *factory_of(backends.cpu);
  Head head{.backend = backends.cuda.empty() ? factory.name
                                             : "cpu:" + backends.cpu + ",cuda:" + backends.cuda};
  if (options.authenticated) {
    head.trust = Trust::proven;
  } else {
    Result<store::Insecure> insecure = store::insecure({});
    if (!insecure) return insecure.status();
    if (*insecure == store::Insecure::pickle) head.trust = Trust::pickles;
  }
  // Without a GPU there is no search for NCCL.
  const bool has_gpu = backends.cuda.empty() && factory.name == native::kName && cuda::has_gpu();
  if (has_gpu && backends.agreed) head.nccl = nccl_version();
  if (head.nccl != 0 && options.config.tls && !keeps_promise(kNccl, Promise::encrypted)) {
    head.nccl = 0;
    base::log(base::Level::info,
              "rank " + std::to_string(options.identity.rank) +
                  ": tensors of GPUs go to native, not to NCCL: TUTTI_TLS is 1, and NCCL does not "
                  "encrypt");
  }
  std::shared_ptr<Store> programs;
  if (options.store) {  // keys of the program, of the backend and of the rendezvous are apart
    programs = make_prefix_store("program", options.store);
    options.store = make_prefix_store("backend", options.store);
  }
  // Ranks on different backends must not wait for each other's tables. So backends do not choose
  // the names of tables, and the first text names the backend.
  int asked = 0;
  options.exchange = [&, rank = options.identity.rank](
                         const std::string& mine) -> Result<std::vector<std::string>> {
    const bool first = asked++ == 0;
    const std::string name =
        first ? "worker_addresses" : "worker_addresses " + std::to_string(asked);
    Result<std::vector<std::string>> texts = exchange(name, first ? head.text() + mine : mine);
    if (!texts) return texts;
    if (texts->size() != base::as_size(options.identity.size))
      return Outcome(Errc::store, "the exchange did not give the texts of all ranks");
    if (!first) return texts;
    if (Outcome s = check_heads(*texts, head, rank); !s.ok()) return s;
    return texts;
  };
  Result<Backend*> backend = factory.name == native::kName
                                 ? native::NativeBackend::make_world(options, std::move(first_lost))
                                 : factory.make_world(options);
  if (!backend) {
    // With a store the caller reports the error there. Without one the other ranks would wait for
    // our text.
    if (asked == 0 && !options.store)
      (void)exchange("worker_addresses", failure_text(backend.status()));
    return backend.status();
  }
  if (*backend == nullptr)
    return Outcome(Errc::internal, "the backend '" + factory.name + "' made no world");
  // Without a GPU no call has to check for GPU tensors.
  if (has_gpu)
    backend =
        gpu::GpuBackend::make(*backend, options.name, cuda::driver,
                              {.on = options.config.cuda_ipc, .image = cuda::kernels::image()},
                              head.nccl == 0 ? gpu::NcclOptions() : nccl_options(options.config));
  if (!backends.cuda.empty()) {
    backend =
        PerDeviceBackend::make_world(*backend, *factory_of(backends.cuda), head.backend, options);
    if (!backend) return backend.status();
  }
  std::vector<int> globals(base::as_size(options.identity.size));
  std::iota(globals.begin(), globals.end(), 0);
  return GroupAccess::make({*backend, options.name, std::move(globals), options.config.timeout,
                            std::move(programs), head.trust,
                            head.trust == Trust::proven ? options.identity.secret : SecretBytes()});
}

int worlds_alive() {
  int alive = 0;
  for (const BackendFactory& factory : factories()) alive += factory.alive ? factory.alive() : 0;
  return alive;
}

}  // namespace tutti::group
