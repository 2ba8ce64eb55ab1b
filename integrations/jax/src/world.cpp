#include "world.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <tutti/config.hpp>
#include <tutti/error.hpp>

#include "job.hpp"
#include "members.hpp"

namespace tutti::jax {
namespace {

// As long as JAX waits, right after this, for the devices of all processes.
constexpr std::chrono::minutes kMeeting(5);

constexpr const char* kEnded = "this process has ended its part in the JAX job";
constexpr const char* kSeveralAtOnce =
    "JAX made two communicators at the same time. tutti.jax needs one CPU device per process "
    "(unset jax_num_cpu_devices and --xla_force_host_platform_device_count), and first "
    "computations on a mesh that two threads do not start at the same time";

ProcessGroup split_world(ProcessGroup& world, const Limits& limits, int color, int key) {
  const Member mine{color, key};
  std::vector<Member> all(static_cast<std::size_t>(world.size()));
  try {
    world.all_gather(all, std::span(&mine, 1)).wait();
  } catch (const TimeoutError& error) {
    raise(Outcome(Errc::timeout, text_of_absence(limits.split.count(), error.what())));
  }
  if (std::optional<std::string> problem = problem_of(all))
    raise(Outcome(Errc::unsupported, *std::move(problem)));
  NewGroupOptions options;
  options.timeout = limits.operation;
  if (std::ranges::all_of(all, [&](const Member& one) { return one.color == color; }))
    options.name = "jax";
  return world.split(color, key, options);
}

}  // namespace

World& World::get() {
  static auto* const world = new World;  // never destroyed: used until the process has ended
  return *world;
}

void World::begin() {
  SharedCommunicator made;  // later the one before, which goes without the lock
  Place place;
  std::chrono::nanoseconds timeout{0};
  try {
    const Result<Config> config = Config::from_environment();
    raise_if(config.status());
    timeout = config.value().timeout;
    ProcessGroup world = make_world(std::min<std::chrono::nanoseconds>(timeout, kMeeting), place);
    // Its operations are those of splits only.
    world.set_timeout(std::chrono::duration_cast<std::chrono::nanoseconds>(place.split_timeout()));
    made = std::make_shared<Communicator>(std::move(world));
  } catch (const std::exception& error) {
    made = std::make_shared<Communicator>(
        std::string("the processes of the JAX job made no group: ") + error.what(), place.rank,
        place.size);
  }
  const std::lock_guard lock(mutex_);
  std::swap(world_, made);
  begun_ = true;
  ended_ = false;
  limits_ = {place.split_timeout(), timeout};
  several_at_once_ = false;
}

void World::leave() {
  // They go without the lock: the last one of a world may take a second.
  std::vector<SharedCommunicator> left;
  const std::lock_guard lock(mutex_);
  ended_ = true;
  const auto replace = [&](SharedCommunicator& one) {
    left.push_back(
        std::exchange(one, std::make_shared<Communicator>(kEnded, one->rank(), one->size())));
  };
  for (auto& [handle, one] : communicators_) replace(one);
  replace(world_);
}

bool World::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

bool World::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Handle World::split(int color, int key) {
  SharedCommunicator made = make(color, key);
  const std::lock_guard lock(mutex_);
  const Handle handle = next_++;
  communicators_.emplace(handle, std::move(made));
  return handle;
}

SharedCommunicator World::make(int color, int key) {
  SharedCommunicator world;
  Limits limits;
  std::string problem;
  {
    const std::lock_guard lock(mutex_);
    world = world_;
    limits = limits_;
    if (std::exchange(splitting_, true)) several_at_once_ = true;
    if (ended_) problem = kEnded;
    if (several_at_once_) problem = kSeveralAtOnce;
  }
  ProcessGroup group;
  if (problem.empty()) {
    try {
      group = split_world(world->group(), limits, color, key);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    splitting_ = false;
    if (several_at_once_) problem = kSeveralAtOnce;
  }
  if (problem.empty()) return std::make_shared<Communicator>(std::move(group));
  // The other processes must not wait for this one.
  if (group) group.abort(problem);
  world->abort(problem);
  return std::make_shared<Communicator>(std::move(problem), key, std::max(world->size(), key + 1));
}

void World::free(Handle communicator) {
  SharedCommunicator last;  // goes without the lock: the last one of a world may take a second
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(communicator);
  if (found == communicators_.end()) return;
  last = std::move(found->second);
  communicators_.erase(found);
}

SharedCommunicator World::find(Handle communicator) const {
  const std::lock_guard lock(mutex_);
  if (communicator == world_handle) return world_;
  const auto found = communicators_.find(communicator);
  if (found == communicators_.end())
    raise(Outcome(Errc::invalid_argument, "there is no such communicator; it may have been freed"));
  return found->second;
}

}  // namespace tutti::jax
