#include "apps/bench/joined_job.hpp"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <set>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "os/host.hpp"

namespace tutti::bench {

namespace {

/// The place of a rank, as the others are told.
struct Place {
  std::array<char, 40> kernel = {};  ///< one start of it; all its processes read one clock
  std::uint64_t network = 0;         ///< a network namespace is a host to tutti
  std::int32_t pid = 0;
};

Place own_place() {
  Place place;
  place.pid = ::getpid();
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file.read(place.kernel.data(), place.kernel.size() - 1);
  if (auto network = os::network_namespace(); network) place.network = *network;
  return place;
}

template <class Value>
std::span<std::byte> bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

template <class Value>
std::span<std::byte> bytes_of(std::vector<Value>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace

JoinedJob::JoinedJob(ProcessGroup world, DeviceType device) : library_(std::move(world), device) {
  Place own = own_place();
  std::vector<Place> places(static_cast<std::size_t>(size()));
  library_.world().all_gather(bytes_of(places), bytes_of(own)).wait();
  std::set<std::pair<std::array<char, 40>, std::uint64_t>> hosts;
  for (const Place& place : places) {
    hosts.insert({place.kernel, place.network});
    if (place.kernel == own.kernel) processes_.push_back(place.pid);
  }
  one_clock_ = processes_.size() == places.size();
  hosts_ = static_cast<int>(hosts.size());
}

JoinedJob::~JoinedJob() {
  if (failed_ || rank() != 0) return;
  try {
    Command quit;
    library_.world().broadcast(bytes_of(quit)).wait();
  } catch (const std::exception&) {
    return;  // then the others know already that the world is broken
  }
}

std::string JoinedJob::settings() const {
  return base::format("launched by another program, on {} host{}", hosts_, hosts_ == 1 ? "" : "s");
}

std::vector<pid_t> JoinedJob::processes() const { return processes_; }

std::vector<RankAnswer> JoinedJob::ask(const Command& command, Clock::duration) {
  const auto failure = [&](const char* what) {
    return JobError(base::format("{} with {} ranks: {}", version(), size(), what));
  };
  std::vector<RankAnswer> answers;
  try {
    Command sent = command;
    library_.world().broadcast(bytes_of(sent)).wait();
    answers = perform(command);
  } catch (const std::exception& error) {
    failed_ = true;
    throw failure(error.what());
  }
  for (const auto& rank : answers) {
    if (rank.answer.ok == 0) throw failure(rank.answer.message);
  }
  return answers;
}

void JoinedJob::follow() {
  for (;;) {
    Command command;
    library_.world().broadcast(bytes_of(command)).wait();
    if (command.task == Task::quit) return;
    perform(command);
  }
}

std::vector<RankAnswer> JoinedJob::perform(const Command& command) {
  ProcessGroup& world = library_.world();
  const auto ranks = static_cast<std::size_t>(size());
  Answer own = performer_.obey(command);
  // All ranks have as many samples: their number follows from the command.
  std::vector<double> samples(performer_.samples().begin(), performer_.samples().end());
  std::vector<Answer> answers(rank() == 0 ? ranks : 0);
  std::vector<double> all_samples(rank() == 0 ? ranks * samples.size() : 0);
  world.gather(bytes_of(answers), bytes_of(own)).wait();
  if (!samples.empty()) world.gather(bytes_of(all_samples), bytes_of(samples)).wait();
  std::vector<RankAnswer> all;
  for (std::size_t r = 0; r < answers.size(); ++r) {
    const auto begin = all_samples.begin() + static_cast<std::ptrdiff_t>(r * samples.size());
    all.push_back({answers[r], {begin, begin + static_cast<std::ptrdiff_t>(samples.size())}});
  }
  return all;
}

}  // namespace tutti::bench
