#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <numeric>
#include <random>

#include "os/host.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"
#include "rendezvous/rendezvous.hpp"

// Keys, all under `name`:
//   size       who came first and how many ranks he was told of
//   rank/<r>   who rank r is; set once, so that a second process with that rank is seen
//   arrivals   a queue that rank 0 reads: the blob of each rank, or that somebody has found a fault
//   table      set once: all blobs, or the error that everybody gets instead
namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;

// For telling the others, and for asking who is missing, when the time itself is over.
constexpr milliseconds kLastWords{500};
constexpr milliseconds kLookEvery{40};
constexpr std::size_t kNamesShown = 16;
constexpr char kTable = 'T';
constexpr char kFailure = 'E';
constexpr char kArrival = 'A';

milliseconds left_until(Deadline deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds::zero());
}

// Equal on two processes that see each other under the same numbers.
std::string process_table() {
  struct stat info {};
  auto boot = os::boot_id();
  if (stat("/proc/self/ns/pid", &info) != 0 || !boot)
    return fmt::format("process {} alone", getpid());
  return fmt::format("{}/{}", *boot, info.st_ino);
}

// Of our process table. One that has ended and was not collected by its parent does not live.
bool is_alive(pid_t pid) {
  auto process = os::open_pidfd(pid);
  if (!process) return kill(pid, 0) == 0 || errno != ESRCH;
  auto ended = os::wait_ready(process->get(), POLLIN, Clock::now());
  return !ended || !*ended;
}

std::string pack(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const std::uint64_t size = text.size();
    for (unsigned i = 0; i < 8; ++i) packed.push_back(static_cast<char>((size >> (8 * i)) & 0xff));
    packed += text;
  }
  return packed;
}

std::optional<std::vector<std::string>> unpack(std::string_view packed, std::size_t count) {
  std::vector<std::string> texts;
  while (!packed.empty() && texts.size() < count) {
    if (packed.size() < 8) return std::nullopt;
    std::uint64_t size = 0;
    for (unsigned i = 0; i < 8; ++i)
      size |= static_cast<std::uint64_t>(static_cast<unsigned char>(packed[i])) << (8 * i);
    packed.remove_prefix(8);
    if (size > packed.size()) return std::nullopt;
    texts.emplace_back(packed.substr(0, size));
    packed.remove_prefix(size);
  }
  if (!packed.empty() || texts.size() != count) return std::nullopt;
  return texts;
}

class Exchange {
 public:
  Exchange(Store& store, std::string_view name, int rank, int size, Deadline deadline)
      : store_(store),
        name_(name),
        rank_(rank),
        size_(size),
        start_(Clock::now()),
        deadline_(deadline),
        who_(fmt::format("process {} on host {}", getpid(), os::host_name())) {}

  // Throws what the store throws.
  Result<std::vector<std::string>> run(std::string mine);

 private:
  [[nodiscard]] std::string key(std::string_view what) const {
    return fmt::format("{}/{}", name_, what);
  }
  [[nodiscard]] std::string rank_key(int rank) const {
    return fmt::format("{}/rank/{}", name_, rank);
  }
  [[nodiscard]] std::string where() const {
    return fmt::format("in {} ({})", name_, store_.describe());
  }

  // Nothing if we are in; else what is wrong with us.
  std::optional<Status> claim(std::string mine);
  Result<std::string> collect();
  Status who_is_missing();
  // The claim of a rank that has made one and whose process has ended; only our own host's are
  // seen.
  std::optional<Status> died(int rank);
  // As `call` with all the time there is, looking now and then whether one of `ranks` has died.
  template <class Call>
  Result<std::string> watching(const std::vector<int>& ranks, Call&& call);
  // Gives everybody this error, unless all have been served already, and returns it.
  Status tell_all(Status status);
  Result<std::vector<std::string>> read_table(const std::string& table);

  Store& store_;
  std::string name_;
  int rank_;
  int size_;
  Clock::time_point start_;
  Deadline deadline_;
  std::string who_;
  std::map<int, std::string> claims_;
};

std::optional<Status> Exchange::claim(std::string mine) {
  const std::string size = fmt::format("{} rank {} ({})", size_, rank_, who_);
  const std::string first = store_.compare_set(key("size"), "", size, left_until(deadline_));
  int others = 0;
  std::from_chars(first.data(), first.data() + first.size(), others);
  if (others != size_) {
    const std::size_t space = std::min(first.find(' '), first.size() - 1);
    return tell_all(Status(
        Errc::disagreement,
        fmt::format("the ranks disagree on the number of processes {}: rank {} ({}) was told "
                    "of {}, but {} of {}; give all processes the same WORLD_SIZE",
                    where(), rank_, who_, size_, first.substr(space + 1), others)));
  }
  // The random part tells two threads of one process apart; the rest says who can see the process.
  const std::string claim =
      fmt::format("{}#{}#{}#{}", who_, std::random_device()(), getpid(), process_table());
  const std::string stands = store_.compare_set(rank_key(rank_), "", claim, left_until(deadline_));
  if (stands == claim) {
    store_.queue_push(key("arrivals"), kArrival + pack({std::to_string(rank_), std::move(mine)}),
                      left_until(deadline_));
    return std::nullopt;
  }
  return tell_all(Status(
      Errc::disagreement,
      fmt::format("rank {} of {} was given to two processes {}: {} and {}; give each process its "
                  "own RANK, and each job its own MASTER_PORT",
                  rank_, size_, where(), stands.substr(0, stands.find('#')), who_)));
}

Result<std::vector<std::string>> Exchange::run(std::string mine) {
  if (const auto status = claim(std::move(mine))) return *status;
  if (rank_ == 0) {
    auto table = collect();
    if (!table) return table.status();
    return read_table(*table);
  }
  try {
    auto table = watching({0}, [&](milliseconds time) { return store_.get(key("table"), time); });
    if (!table) return table.status();
    return read_table(*table);
  } catch (const TimeoutError&) {
    return who_is_missing();
  }
}

Result<std::string> Exchange::collect() {
  std::vector<std::string> blobs(static_cast<std::size_t>(size_));
  std::vector<int> missing(static_cast<std::size_t>(size_));
  std::iota(missing.begin(), missing.end(), 0);
  for (int arrived = 0; arrived < size_; ++arrived) {
    std::string arrival;
    try {
      auto popped = watching(
          missing, [&](milliseconds time) { return store_.queue_pop(key("arrivals"), time); });
      if (!popped) return tell_all(popped.status());
      arrival = std::move(*popped);
    } catch (const TimeoutError&) {
      return tell_all(who_is_missing());
    }
    // Whoever found a fault has put it into the table first.
    if (arrival.starts_with(kFailure)) return store_.get(key("table"), kLastWords);
    if (!arrival.empty()) arrival.erase(0, 1);
    auto parts = unpack(arrival, 2);
    int rank = -1;
    if (parts) {
      const std::string& text = parts->front();
      std::from_chars(text.data(), text.data() + text.size(), rank);
    }
    if (!parts || rank < 0 || rank >= size_)
      return tell_all(Status(Errc::store, "foreign data stands under " + name_));
    blobs[static_cast<std::size_t>(rank)] = std::move(parts->back());
    std::erase(missing, rank);
  }
  return store_.compare_set(key("table"), "", kTable + pack(blobs),
                            std::max(left_until(deadline_), kLastWords));
}

std::optional<Status> Exchange::died(int rank) {
  std::string& claim = claims_[rank];
  if (claim.empty()) {
    if (!store_.check(rank_key(rank), kLastWords)) return std::nullopt;
    claim = store_.get(rank_key(rank), kLastWords);
  }
  const std::size_t second = claim.find('#', claim.find('#') + 1);
  const std::size_t third = second == std::string::npos ? second : claim.find('#', second + 1);
  if (third == std::string::npos || claim.substr(third + 1) != process_table()) return std::nullopt;
  int pid = 0;
  std::from_chars(claim.data() + second + 1, claim.data() + third, pid);
  if (pid <= 0 || pid == getpid() || is_alive(pid)) return std::nullopt;
  return Status(Errc::peer_lost,
                fmt::format(
                    "lost rank {} of {} ({}): its process ended {}; look at that rank's output "
                    "for the cause, and start the job again",
                    rank, size_, claim.substr(0, claim.find('#')), where()))
      .with_culprit(rank);
}

template <class Call>
Result<std::string> Exchange::watching(const std::vector<int>& ranks, Call&& call) {
  while (true) {
    // More seldom where there are many to ask the store about.
    const milliseconds slice = kLookEvery + milliseconds(ranks.size());
    const bool last = left_until(deadline_) <= slice;
    try {
      return call(last ? left_until(deadline_) : slice);
    } catch (const TimeoutError&) {
      if (last) throw;
    }
    for (const int rank : ranks) {
      if (auto status = died(rank)) return *status;
    }
  }
}

Status Exchange::who_is_missing() {
  const Deadline last = Clock::now() + kLastWords;
  std::string names;
  int missing = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (store_.check(rank_key(rank), left_until(last))) continue;
    if (static_cast<std::size_t>(++missing) <= kNamesShown)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  if (static_cast<std::size_t>(missing) > kNamesShown)
    names += fmt::format(" and {} more", static_cast<std::size_t>(missing) - kNamesShown);
  const double took = std::chrono::duration<double>(Clock::now() - start_).count();
  if (missing == 0) {
    Status status(Errc::timeout,
                  fmt::format("all {} ranks have joined {}, but rank 0 has not handed out the "
                              "table after {:.1f} s; is it stopped, or the timeout too short?",
                              size_, where(), took));
    return status.with_culprit(0);
  }
  return Status(
      Errc::timeout,
      fmt::format("{} {} of {} {} not joined after {:.1f} s {}; were {} started, with "
                  "this MASTER_ADDR and MASTER_PORT?",
                  missing == 1 ? "rank" : "ranks", names, size_, missing == 1 ? "has" : "have",
                  took, where(), missing == 1 ? "it" : "they"));
}

Status Exchange::tell_all(Status status) {
  const std::string table =
      fmt::format("{}{} {}", kFailure, static_cast<int>(status.code()), status.message());
  const milliseconds time = std::max(left_until(deadline_), kLastWords);
  store_.compare_set(key("table"), "", table, time);
  store_.queue_push(key("arrivals"), std::string(1, kFailure), time);
  return status;
}

Result<std::vector<std::string>> Exchange::read_table(const std::string& table) {
  const Status foreign(Errc::store, fmt::format("foreign data stands under {}", key("table")));
  if (table.empty()) return foreign;
  if (table.front() == kTable) {
    auto blobs = unpack(std::string_view(table).substr(1), static_cast<std::size_t>(size_));
    if (!blobs) return foreign;
    return *std::move(blobs);
  }
  int code = 0;
  const char* end = table.data() + table.size();
  const auto [text, error] = std::from_chars(table.data() + 1, end, code);
  if (table.front() != kFailure || error != std::errc() || text == end || code <= 0 ||
      code > static_cast<int>(Errc::internal))
    return foreign;
  return Status(static_cast<Errc>(code), std::string(text + 1, end));
}

}  // namespace

Result<std::vector<std::string>> exchange(Store& store, std::string_view name, int rank, int size,
                                          std::string mine, Deadline deadline) {
  if (size < 1 || rank < 0 || rank >= size || name.empty()) {
    return Status(
        Errc::invalid_argument,
        fmt::format("an exchange \"{}\" of rank {} of {} makes no sense", name, rank, size));
  }
  try {
    return Exchange(store, name, rank, size, deadline).run(std::move(mine));
  } catch (const Error& error) {
    return Status(error.code(), fmt::format("rank {} of {} cannot exchange {}: {}", rank, size,
                                            name, error.what()));
  }
}

}  // namespace tutti::rendezvous
