#include "backend/native/native_backend.hpp"

#include <new>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include "backend/native/job_text.hpp"
#include "backend/native/promises.hpp"
#include "base/deadline.hpp"
#include "base/log.hpp"
#include "kernels/unsupported.hpp"

namespace tutti::native {
namespace {

/// A line for the log, from rank 0 of the group.
std::string group_text(const engine::Group& group, const std::vector<int>& ranks) {
  return "group '" + group.name + "' of " + std::to_string(group.size) +
         (group.size == 1 ? " rank" : " ranks") + " (" + ranks_text(ranks) + ")" +
         (group.size == 1               ? ""
          : group.one_host()            ? " by shared memory"
          : group.local_members.empty() ? " by TCP"
                                        : " by shared memory and TCP") +
         ", timeout " + base::seconds_text(group.timeout) +
         (group.strict ? ", strict agreement" : "");
}

}  // namespace

Result<NativeBackend*> NativeBackend::make(std::shared_ptr<Context> context,
                                           const engine::GroupSpec& spec) {
  Result<engine::Group*> group =
      context->driver().with([&] { return context->engine().add_group(spec); });
  if (!group) return group.status();
  if ((*group)->rank == 0 && base::is_logged(base::Level::info))
    base::log(base::Level::info, group_text(**group, spec.ranks));
  return new NativeBackend(std::move(context), *group);
}

Result<Backend*> NativeBackend::make_world(const WorldOptions& options,
                                           transport::FirstLost first_lost) {
  Result<std::shared_ptr<Context>> context = Context::create(options, std::move(first_lost));
  if (!context) return context.status();
  engine::GroupSpec spec;
  spec.id = call::hash_text("world") | 1;
  spec.name = options.name;
  for (int r = 0; r < options.identity.size; ++r) spec.ranks.push_back(r);
  spec.timeout = options.config.timeout;
  spec.strict = options.config.agree == Config::Agree::strict;
  Result<NativeBackend*> world = make(std::move(*context), spec);
  if (!world) return world.status();
  return static_cast<Backend*>(*world);
}

BackendFactory factory() {
  BackendFactory factory;
  factory.name = kName;
  factory.make_world = [](const WorldOptions& options) {
    return NativeBackend::make_world(options, {});
  };
  factory.alive = Context::alive;
  factory.promises = kPromises;
  return factory;
}

NativeBackend::~NativeBackend() {
  if (!context_->driver().with_unless_ours([&] { context_->engine().remove_group(*group_); })) {
    // exit() in a signal handler has interrupted this thread in the engine, and destroys statics:
    // leave_all does the rest.
    static auto& kept = *new std::vector<std::shared_ptr<Context>>;  // reachable: no leak
    kept.push_back(std::move(context_));
  }
}

std::string NativeBackend::unsupported(const Collective& call) const {
  return kernels::why_unsupported(call, kName);
}

Pending NativeBackend::submit(const Collective& call, bool asynchronous) noexcept {
  // try_probe does not wait. So take in frames that have come, and notice ranks that have died.
  if (call.kind == Kind::probe && call.timeout == std::chrono::nanoseconds(0)) [[unlikely]]
    (void)health();
  // Any other call gives its caller a Work, and does not know whether that waits soon.
  const bool waits = !asynchronous && !is_collective(call.kind);
  return {this, context_->driver().submit(*group_, call, waits)};
}

bool NativeBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                         Outcome& outcome) noexcept {
  return ticket == engine::kDoneTicket ||
         context_->driver().wait(*group_, ticket, limit, outcome, nullptr);
}

std::optional<Received> NativeBackend::finish(std::uint64_t ticket,
                                              std::optional<std::chrono::nanoseconds> limit,
                                              Outcome& outcome) noexcept {
  Received received;
  if (ticket == engine::kDoneTicket) return received;
  const bool done = context_->driver().wait(*group_, ticket, limit, outcome, &received);
  return done && outcome.ok() ? std::optional(received) : std::nullopt;
}

std::optional<Outcome> NativeBackend::poll(std::uint64_t ticket) noexcept {
  if (ticket == engine::kDoneTicket) return Outcome();
  return context_->driver().poll(*group_, ticket);
}

void NativeBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  context_->driver().on_done(*group_, ticket, callback);
}

Received NativeBackend::received(std::uint64_t ticket) noexcept {
  if (!engine::is_p2p(ticket) || ticket == engine::kDoneTicket) return {};
  return context_->driver().with([&] { return context_->engine().received(*group_, ticket); });
}

std::optional<ProbedMessage> NativeBackend::probed(std::uint64_t ticket) noexcept {
  std::optional<ProbedMessage> found =
      context_->driver().with([&] { return engine::Engine::probed(*group_, ticket); });
  if (!found) context_->driver().give_way();
  return found;
}

Received NativeBackend::release(std::uint64_t ticket) noexcept {
  // Tickets of collectives need no release: this test is their only cost.
  if (!engine::is_p2p(ticket) || ticket == engine::kDoneTicket) [[likely]]
    return {};
  return context_->driver().release(*group_, ticket);
}

Result<bool> NativeBackend::cancel(std::uint64_t ticket) noexcept {
  return engine::is_p2p(ticket) &&
         context_->driver().with([&] { return context_->engine().cancel(*group_, ticket); });
}

bool NativeBackend::wait_any(std::span<const Pending> ones,
                             std::optional<std::chrono::nanoseconds> limit,
                             std::vector<std::size_t>& ended) noexcept {
  try {
    std::vector<std::pair<engine::Group*, std::uint64_t>> ours;
    for (const Pending& one : ones) {
      const auto* const its = dynamic_cast<NativeBackend*>(one.operations);
      if (its == nullptr || its->context_ != context_) return false;
      ours.emplace_back(its->group_, one.ticket);
    }
    return context_->driver().wait_any(ours, limit, ended);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::string NativeBackend::describe(std::uint64_t ticket) noexcept {
  return context_->driver().with([&] { return engine::Engine::describe(*group_, ticket); });
}

void NativeBackend::abort(const Outcome& cause) noexcept {
  context_->driver().with([&] { context_->engine().break_group(*group_, cause); });
}

Outcome NativeBackend::health() noexcept {
  // Another rank may have broken the group since the last check, or before we made the group. And a
  // rank may have died for which no operation here waits.
  if (!group_->broken.load(std::memory_order_relaxed)) {  // a hint; read again below
    context_->driver().with([&] {
      context_->driver().look_around_if_due();
      context_->engine().progress();
      (void)context_->engine().hear_of_break(*group_);
    });
  }
  // acquire: pairs with the release in FailurePropagation::end.
  if (!group_->broken.load(std::memory_order_acquire)) return Outcome();
  return group_->cause;
}

Result<Backend*> NativeBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  if (ranks.empty()) return static_cast<Backend*>(nullptr);  // we need no call of the other ranks
  // Equal on all members, because every member counts the same calls of the parent.
  const std::uint64_t calls = context_->driver().with([&] { return group_->window.submitted(); });
  return make_of(ranks, std::to_string(calls), std::move(name), true);
}

Result<Backend*> NativeBackend::make_among(std::span<const int> ranks, std::string_view tag,
                                           std::string name) noexcept {
  // A rank may have many of them, and its sends and recvs are recorded.
  return make_of(ranks, std::string(tag), std::move(name), false);
}

/// A group of ranks of this group. `which` distinguishes it from others of the same ranks; equal on
/// all its members.
Result<Backend*> NativeBackend::make_of(std::span<const int> ranks, const std::string& which,
                                        std::string name, bool recorded) {
  engine::GroupSpec spec;
  spec.recorded = recorded;
  spec.name = std::move(name);
  std::string identity = std::to_string(group_->id) + "/" + which;
  for (const int rank : ranks) {
    const int global = group_->members[static_cast<std::size_t>(rank)].global;
    spec.ranks.push_back(global);
    identity += "," + std::to_string(global);
  }
  spec.id = call::hash_text(identity) | 1;
  spec.timeout = group_->timeout;
  spec.strict = group_->strict;
  Result<NativeBackend*> made = make(context_, spec);
  if (!made) return made.status();
  return static_cast<Backend*>(*made);
}

void NativeBackend::close(std::chrono::nanoseconds) noexcept {}

Result<std::shared_ptr<std::byte>> NativeBackend::allocate(std::size_t bytes) noexcept {
  try {
    auto memory = context_->host().allocate(bytes);
    if (!memory || *memory != nullptr) return memory;
  } catch (const std::bad_alloc&) {
    return Outcome(Errc::resource, "no memory for a buffer");
  }
  base::log_limited(base::Level::info, "alloc.full",
                    "alloc gives ordinary memory: that which other ranks of this host can read is "
                    "used up, or the address space of this process is limited (ulimit -v)");
  return ordinary_memory(bytes);
}

std::string NativeBackend::location(int rank) const {
  return context_->whereabouts(group_->members[static_cast<std::size_t>(rank)].global);
}

}  // namespace tutti::native
