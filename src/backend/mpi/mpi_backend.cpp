#include "backend/mpi/mpi_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include "backend/mpi/launcher.hpp"
#include "backend/mpi/library.hpp"
#include "backend/mpi/promises.hpp"
#include "backend/mpi/rendezvous.hpp"
#include "base/kept.hpp"
#include "base/shown.hpp"
#include "kernels/unsupported.hpp"
#include "os/cpu_quota.hpp"
#include "os/cpu_set.hpp"
#include "os/host.hpp"

namespace tutti::mpi {
namespace {

/// The tag of the messages with which MPI makes a communicator of some members (create_group).
constexpr int kMembersTag = 7;

/// The ticket of a call that could not be made.
constexpr std::uint64_t kBarred = ~std::uint64_t{0};

std::string here() { return os::host_name() + ", pid " + std::to_string(::getpid()); }

/// The text by which a rank tells the others its host and pid, a random number, its CPUs. A line
/// each.
std::string introduction() {
  return here() + '\n' + std::to_string(std::random_device()()) + '\n' +
         os::affinity_of(0).to_text();
}

/// More ranks share the host of this one than there are CPUs for them. mpiexec may bind each rank
/// to a CPU of its own, so the CPUs of all of them count.
bool is_oversubscribed(const std::vector<std::string>& introductions, int rank,
                       const std::optional<int>& given_cpus) {
  const auto host = [](const std::string& text) {
    const std::string line = text.substr(0, text.find('\n'));
    return line.substr(0, line.rfind(", pid "));
  };
  const std::string ours = host(introductions[static_cast<std::size_t>(rank)]);
  std::size_t ranks = 0;
  os::CpuSet cpus;
  for (const std::string& one : introductions) {
    if (host(one) != ours) continue;
    ++ranks;
    if (const auto its = os::CpuSet::parse(one.substr(one.rfind('\n') + 1))) cpus.add(*its);
  }
  std::size_t usable = std::max<std::size_t>(1, cpus.count());
  if (const auto quota = os::cpu_quota())
    usable = std::min(usable, static_cast<std::size_t>(quota->cpus));
  if (given_cpus) usable = static_cast<std::size_t>(*given_cpus);
  return ranks > usable;
}

/// Looks at the ranks before MPI does, which may end the process for a wrong one.
Outcome check_members(Driver& driver, Comm parent, const std::vector<int>& members) {
  int rank = -1;
  int size = 0;
  const int code = driver.with([&] {
    const int found = driver.api().rank(parent, rank);
    return found != 0 ? found : driver.api().size(parent, size);
  });
  if (code != 0)
    return Outcome(Errc::internal,
                   "asking MPI for its ranks failed: " + driver.api().error_text(code));
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (const int one : members) {
    if (one < 0 || one >= size || seen[static_cast<std::size_t>(one)])
      return Outcome(Errc::invalid_argument, "backend_options of 'mpi': " + std::to_string(one) +
                                                 " is listed twice or is "
                                                 "no rank of the communicator, which has " +
                                                 std::to_string(size) +
                                                 "; was the program started by MPI's mpirun?");
    seen[static_cast<std::size_t>(one)] = true;
  }
  if (seen[static_cast<std::size_t>(rank)]) return {};
  return Outcome(Errc::invalid_argument, "backend_options of 'mpi': this process is rank " +
                                             std::to_string(rank) +
                                             " of the communicator, which is not in the list");
}

std::atomic<int>& living() {
  static std::atomic<int> count{0};
  return count;
}

}  // namespace

Result<Backend*> MpiBackend::make_world(Driver& driver, const WorldOptions& options) {
  if (const std::string why = driver.forbidden(); !why.empty())
    return Outcome(Errc::unsupported, why);
  Api& api = driver.api();
  const Result<Ranks> given = ranks_of(api, options.backend_options);
  if (!given) return given.status();
  Comm base = given.value().comm;
  std::shared_ptr<void> made_here;  // a communicator that is needed only until it is duplicated
  if (const auto& members = given.value().members) {
    if (Outcome s = check_members(driver, base, *members); !s.ok()) return s;
    const Comm parent = base;
    const int code =
        driver.with([&] { return api.create_group(parent, *members, kMembersTag, base); });
    if (code != 0)
      return Outcome(Errc::internal, "MPI_Comm_create_group failed: " + api.error_text(code));
    made_here = std::shared_ptr<void>(nullptr, [&driver, base](void*) mutable {
      (void)driver.with([&] { return driver.api().free(base); });
    });
  }
  int rank = 0;
  int size = 0;
  const int numbers = driver.with([&] {
    const int code = api.rank(base, rank);
    return code != 0 ? code : api.size(base, size);
  });
  if (numbers != 0)
    return Outcome(Errc::internal, "asking MPI for its ranks failed: " + api.error_text(numbers));
  if (rank != options.identity.rank || size != options.identity.size) {
    return Outcome(Errc::invalid_argument,
                   "this process is rank " + std::to_string(options.identity.rank) + " of " +
                       std::to_string(options.identity.size) + ", but for MPI it is rank " +
                       std::to_string(rank) + " of " + std::to_string(size) +
                       "; start the program by MPI's own mpirun (or tuttirun --backend mpi), and "
                       "leave rank and size to it");
  }
  // The random number of rank 0 tells this world from others of the same ranks.
  auto introductions = options.exchange(introduction());
  if (!introductions) return introductions.status();
  const std::uint64_t id = call::hash_text(introductions->front(), options.identity.generation) | 1;
  driver.set_oversubscribed(is_oversubscribed(*introductions, rank, options.config.cpus));
  std::vector<std::string> locations;
  for (const std::string& text : *introductions)
    locations.push_back(base::shown(text.substr(0, text.find('\n')), 300));

  MpiGroup::Spec spec;
  spec.id = id;
  spec.name = options.name;
  for (int r = 0; r < size; ++r) spec.members.push_back(r);
  spec.rank = rank;
  // A communicator of the program may have the handle of one that the program has freed.
  Notes* notes = driver.with(
      [&] { return base == api.world() ? driver.notes_of(base) : static_cast<Notes*>(nullptr); });
  Outcome made = duplicate(driver, base, options.deadline, spec.data);
  if (made.ok()) made = duplicate(driver, base, options.deadline, spec.compare);
  if (Comm comm{}; made.ok() && notes == nullptr) {
    made = duplicate(driver, base, options.deadline, comm);
    if (made.ok()) notes = driver.with([&] { return &driver.add_notes(base, comm); });
  }
  if (!made.ok()) return made;
  spec.made = true;
  return driver.with([&]() -> Result<Backend*> {
    MpiWorld& world = driver.add(
        std::make_unique<MpiWorld>(driver, *notes, options.config, rank, std::move(locations)));
    ++living();
    std::shared_ptr<MpiWorld> shared(&world, [&driver](MpiWorld* ended) {
      driver.with([&] { ended->end(); });
      --living();
    });
    return new MpiBackend(std::move(shared), world.add(std::move(spec)));
  });
}

MpiBackend::~MpiBackend() {
  // MPI is over and cannot tell the others.
  if (driver_.finalized()) {
    base::keep_for_good(std::move(world_));
    return;
  }
  driver_.with([&] {
    if (!driver_.forbidden().empty()) return group_->leave_later();
    group_->leave();
    driver_.progress(true);
  });
}

std::optional<Outcome> MpiBackend::barred() const {
  if (std::string why = driver_.forbidden(); !why.empty())
    return Outcome(Errc::unsupported, std::move(why));
  return std::nullopt;
}

std::string MpiBackend::unsupported(const Collective& call) const {
  return kernels::why_unsupported(call, kName);
}

Pending MpiBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (barred()) [[unlikely]]
    return {this, kBarred};
  const std::uint64_t ticket = driver_.with([&] {
    // It does not wait: so it looks first, at what the other ranks tell.
    if (call.kind == Kind::probe && call.timeout.count() == 0) driver_.progress(true);
    return group_->submit(call);
  });
  if (asynchronous) driver_.need_thread();
  return {this, ticket};
}

bool MpiBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                      Outcome& outcome) noexcept {
  if (const auto why = barred()) [[unlikely]] {
    outcome = *why;
    return true;
  }
  return driver_.wait(*group_, ticket, limit, outcome);
}

std::optional<Outcome> MpiBackend::poll(std::uint64_t ticket) noexcept {
  if (auto why = barred()) return why;
  return driver_.with([&] {
    driver_.progress(false);
    return group_->operations().outcome(ticket);
  });
}

void MpiBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  if (const auto why = barred()) {
    callback.function(callback.context, *why);
    return;
  }
  driver_.need_thread();
  driver_.with([&] { group_->operations().on_done(ticket, callback); });
}

tutti::Received MpiBackend::received(std::uint64_t ticket) noexcept {
  if (barred()) return {};
  return driver_.with([&] { return group_->operations().received(ticket); });
}

std::optional<ProbedMessage> MpiBackend::probed(std::uint64_t ticket) noexcept {
  if (barred()) return std::nullopt;
  return driver_.with([&] { return group_->probed(ticket); });
}

tutti::Received MpiBackend::release(std::uint64_t ticket) noexcept {
  if (driver_.finalized() || ticket == kBarred) return {};
  return driver_.with([&] { return group_->release(ticket); });
}

Result<bool> MpiBackend::cancel(std::uint64_t ticket) noexcept {
  if (auto why = barred()) return *why;
  return driver_.with([&] { return group_->cancel(ticket); });
}

void MpiBackend::abort(const Outcome& cause) noexcept {
  if (driver_.finalized()) return;
  driver_.with([&] {
    if (!driver_.forbidden().empty()) return group_->fail_later(cause);
    group_->fail(cause, true);
    driver_.progress(true);
  });
}

Outcome MpiBackend::health() noexcept {
  if (auto why = barred()) return *why;
  return driver_.with([&] {
    driver_.progress(true);
    return group_->cause();
  });
}

Result<Backend*> MpiBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  if (auto why = barred()) return *why;
  return driver_.with([&]() -> Result<Backend*> {
    if (ranks.empty()) {
      group_->expect_child(nullptr, -1, 0);
      return static_cast<Backend*>(nullptr);
    }
    MpiGroup::Spec spec;
    const int color = *std::min_element(ranks.begin(), ranks.end());
    spec.id = group_->child_id(color);
    spec.name = std::move(name);
    for (const int one : ranks) spec.members.push_back(group_->world_rank(one));
    const auto own = std::find(ranks.begin(), ranks.end(), group_->rank());
    spec.rank = static_cast<int>(own - ranks.begin());
    MpiGroup* const child = world_->add(std::move(spec));
    group_->expect_child(child, color, static_cast<int>(own - ranks.begin()));
    return static_cast<Backend*>(new MpiBackend(world_, child));
  });
}

void MpiBackend::close(std::chrono::nanoseconds /*drain*/) noexcept {}

std::string MpiBackend::location(int rank) const {
  return world_->location(group_->world_rank(rank));
}

Capabilities MpiBackend::capabilities() const noexcept {
  return {.probe = true, .communicator = static_cast<std::uintptr_t>(group_->communicator())};
}

BackendFactory factory() {
  BackendFactory factory;
  factory.name = kName;
  factory.missing = missing_library;
  factory.about = [] {
    Result<Api*> api = open_library();
    if (!api) return std::string();
    const LibraryInfo& info = (*api)->info();
    const std::optional<bool> cuda = (*api)->cuda_aware();
    return info.name + ", MPI " + std::to_string(info.major) + "." + std::to_string(info.minor) +
           ", " + base::shown(info.path) + " (ABI: " + info.abi +
           "), begun with MPI_THREAD_SERIALIZED, " +
           (!cuda ? "does not tell whether it is CUDA-aware"
                  : (*cuda ? "CUDA-aware" : "not CUDA-aware"));
  };
  factory.rendezvous =
      [](const std::any& options,
         std::chrono::steady_clock::time_point deadline) -> Result<BackendRendezvous> {
    Result<Driver*> driver = Driver::of_process();
    if (!driver) return driver.status();
    return rendezvous(**driver, options, deadline);
  };
  factory.make_world = [](const WorldOptions& options) -> Result<Backend*> {
    Result<Driver*> driver = Driver::of_process();
    if (!driver) return driver.status();
    return MpiBackend::make_world(**driver, options);
  };
  factory.alive = [] { return living().load(); };
  factory.launch = [](int ranks) -> Result<LaunchCommand> {
    Result<Api*> library = open_library();
    if (!library) return library.status();
    return launch_command((*library)->info(), ranks);
  };
  factory.promises = kPromises;
  return factory;
}

}  // namespace tutti::mpi
