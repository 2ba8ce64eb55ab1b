#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/little_endian.hpp"
#include "base/log.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"
#include "record/start_watch.hpp"
#include "rendezvous/rendezvous.hpp"

// Keys, all under `name`:
//   size                 the rank that came first, and the number of ranks it was told of
//   rank/<r>             the process of rank r; set once, so a second one with that rank is seen
//   worker_address/<r>   the blob of rank r
//   arrived              the number of blobs
//   table                set once: all blobs, or the error that every rank gets instead
//   stall/<n>            the rank that logs line n about a long wait
//   stall/<n>/text       the ranks that are missing then
// The rank that brings the last blob writes the table. All others wait for it, so this one key, set
// by a fault or by the will of a rank that was killed, ends every wait.
namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;

// For telling the others, and for asking which are missing, when the time itself is over.
constexpr milliseconds kLastWords{500};
// Without wills, how often to look whether a process has died; with them, whether he who brought
// the last blob was stopped before he made the table.
constexpr milliseconds kLookEvery{40};
constexpr milliseconds kLookSeldom{250};
constexpr std::size_t kNamesShown = 16;
constexpr char kTable = 'P';
constexpr char kFailure = 'E';
constexpr int kNobody = -1;
constexpr std::size_t kLengthBytes = 8;  // of each number in the table
// Bounds what a foreign table makes of few bytes.
constexpr std::size_t kMostInCommon = std::size_t{16} * 1024;
constexpr std::string_view kOnHost = " on host ";

using base::left_until;

// Equal on two processes that see each other under the same numbers.
std::string process_table() {
  auto boot = os::boot_id();
  auto space = os::pid_namespace();
  if (!boot || !space) return base::format("process {} alone", getpid());
  return base::format("{}/{}", *boot, *space);
}

// True if a process of our pid namespace is alive. A zombie is not.
bool is_alive(pid_t pid) { return !os::DeathWatch::of(pid).ended(); }

// The texts in order, each as the bytes that it begins with in common with the one before it, the
// number of its other bytes, and these: ranks of one host tell much that is equal.
std::string pack(const std::vector<std::string>& texts) {
  std::string packed;
  const auto put = [&](std::size_t number) {
    std::array<std::byte, kLengthBytes> bytes{};
    base::put_number(bytes, number);
    packed.append(reinterpret_cast<const char*>(bytes.data()), kLengthBytes);
  };
  std::string_view before;
  for (const std::string_view text : texts) {
    const std::size_t most = std::min({before.size(), text.size(), kMostInCommon});
    const auto common = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(most),
                      before.begin())
            .first -
        text.begin());
    put(common);
    put(text.size() - common);
    packed.append(text.substr(common));
    before = text;
  }
  return packed;
}

std::optional<std::vector<std::string>> unpack(std::string_view packed, std::size_t count) {
  std::vector<std::string> texts;
  const auto take = [&]() -> std::uint64_t {
    if (packed.size() < kLengthBytes) return kMostInCommon + 1;
    const auto number = base::take_number(std::as_bytes(std::span(packed)).first(kLengthBytes));
    packed.remove_prefix(kLengthBytes);
    return number;
  };
  while (!packed.empty() && texts.size() < count) {
    const std::uint64_t common = take();
    const std::uint64_t more = take();
    if (common > kMostInCommon || common > (texts.empty() ? 0 : texts.back().size()) ||
        more > packed.size())
      return std::nullopt;
    std::string text = common > 0 ? texts.back().substr(0, common) : std::string();
    text += packed.substr(0, more);
    texts.push_back(std::move(text));
    packed.remove_prefix(more);
  }
  if (!packed.empty() || texts.size() != count) return std::nullopt;
  return texts;
}

std::string table_key(std::string_view name) { return base::format("{}/table", name); }

// The error in the table instead of blobs.
std::string failure_text(const Outcome& status) {
  return base::format("{}{} {} {}", kFailure, static_cast<int>(status.code()),
                      status.culprit().value_or(kNobody), status.message());
}

std::string who_we_are() {
  return base::format("process {}{}{}", getpid(), kOnHost, os::host_name());
}

std::string host_of(const std::string& claim) {
  const std::size_t at = claim.find(kOnHost);
  if (at == std::string::npos) return "?";
  const std::string host = claim.substr(at + kOnHost.size());
  return base::shown_on_line(host.substr(0, host.find('#')), 64);
}

// The error that the others read if we are killed.
std::string will_of(int rank, int size, const std::string& store) {
  Outcome status(
      Errc::peer_lost,
      base::format(
          "rank {} of {} ({}) was lost during init: its connection to {} ended "
          "unexpectedly; look at that rank's output for the cause, and start the job again",
          rank, size, who_we_are(), store));
  return failure_text(status.with_culprit(rank));
}

class Exchange {
 public:
  Exchange(Store& store, std::string_view name, int rank, int size, Deadline deadline,
           record::StartWatch* watch)
      : store_(store),
        name_(name),
        rank_(rank),
        size_(size),
        start_(Clock::now()),
        deadline_(deadline),
        watch_(watch),
        who_(who_we_are()) {}

  // Throws what the store throws.
  Result<std::vector<std::string>> run(const std::string& mine);

 private:
  [[nodiscard]] std::string key(std::string_view what) const {
    return base::format("{}/{}", name_, what);
  }
  [[nodiscard]] std::string rank_key(int rank) const {
    return base::format("{}/rank/{}", name_, rank);
  }
  [[nodiscard]] std::string address_key(int rank) const {
    return base::format("{}/worker_address/{}", name_, rank);
  }
  [[nodiscard]] std::string where() const { return base::format("at {}", store_.describe()); }

  // Nothing if we are in; else what is wrong with us.
  std::optional<Outcome> claim();
  // Puts our blob beside the others; whether it was the last.
  bool arrive(const std::string& mine);
  // The table that stands now, made of all blobs if there was none.
  std::string make_table();
  std::string await_table();
  struct Missing {
    int count = 0;
    std::string names;  ///< "1, 2 and 3 more"
    std::string hosts;  ///< of those that have come
  };
  /// `with_hosts`: also looks where the others are.
  Missing look_for_missing(Deadline last, bool with_hosts);
  Outcome who_is_missing();
  /// Tells the watch that this many ranks have brought their blob.
  void tell_watch(std::int64_t arrived);
  /// Tells it that the store does not answer.
  void tell_watch_of_silence();
  [[nodiscard]] std::string who_waits() const {
    return base::format("init of rank {} of {}", rank_, size_);
  }
  // The claim of a rank that has made one and whose process has ended; only our own host's are
  // seen.
  std::optional<Outcome> died(int rank);
  // The ranks to look after where the store takes no wills: rank 0 all, the others rank 0.
  std::optional<Outcome> anyone_died();
  // Gives everybody this error, unless all have been served already; the table that stands.
  std::string tell_all(const Outcome& status);
  Result<std::vector<std::string>> read_table(const std::string& table);

  Store& store_;
  std::string name_;
  int rank_;
  int size_;
  Clock::time_point start_;
  Deadline deadline_;
  record::StartWatch* watch_;
  std::int64_t arrived_ = -1;  ///< told to the watch
  int stalls_ = 0;             ///< lines about a long wait, of this rank or another
  std::string who_;
  bool has_will_ = false;
  std::map<int, std::string> claims_;
};

std::optional<Outcome> Exchange::claim() {
  const std::string size = base::format("{} rank {} ({})", size_, rank_, who_);
  const std::string first = store_.compare_set(key("size"), "", size, left_until(deadline_));
  int others = 0;
  std::from_chars(first.data(), first.data() + first.size(), others);
  if (others != size_) {
    const std::size_t space = std::min(first.find(' '), first.size() - 1);
    return Outcome(
        Errc::disagreement,
        base::format("the ranks disagree on the number of processes {}: rank {} ({}) was told "
                     "of {}, but {} of {}; give all processes the same WORLD_SIZE",
                     where(), rank_, who_, size_, base::shown_on_line(first.substr(space + 1)),
                     others));
  }
  // The random part tells two threads of one process apart; the rest says which processes can see
  // this one.
  const std::string claim =
      base::format("{}#{}#{}#{}", who_, std::random_device()(), getpid(), process_table());
  const std::string stands = store_.compare_set(rank_key(rank_), "", claim, left_until(deadline_));
  if (stands == claim) return std::nullopt;
  return Outcome(
      Errc::disagreement,
      base::format(
          "rank {} of {} was given to two processes {}: {} and {}; give each process its "
          "own RANK, each job its own MASTER_PORT, and survivors of a failure a new job name",
          rank_, size_, where(), base::shown_on_line(stands.substr(0, stands.find('#'))), who_));
}

bool Exchange::arrive(const std::string& mine) {
  store_.set(address_key(rank_), mine, left_until(deadline_));
  return store_.add(key("arrived"), 1, left_until(deadline_)) == size_;
}

std::string Exchange::make_table() {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(address_key(rank));
  const milliseconds time = std::max(left_until(deadline_), kLastWords);
  return store_.compare_set(table_key(name_), "", kTable + pack(store_.multi_get(keys, time)),
                            time);
}

Result<std::vector<std::string>> Exchange::run(const std::string& mine) {
  has_will_ = store_.set_will(table_key(name_), will_of(rank_, size_, store_.describe()),
                              left_until(deadline_));
  if (const auto status = claim()) {
    tell_all(*status);
    return *status;
  }
  auto blobs = read_table(arrive(mine) ? make_table() : await_table());
  try {
    if (has_will_) store_.drop_will(table_key(name_), std::max(left_until(deadline_), kLastWords));
  } catch (const Error&) {
    // We have all that we came for. If the store has ended since, and a rank with it, the others
    // are better placed to say so than an init that fails now would be.
  }
  return blobs;
}

std::string Exchange::await_table() {
  while (true) {
    // In large jobs each asks less often, and one store answers all.
    const milliseconds slice = has_will_    ? kLookSeldom + milliseconds(size_)
                               : rank_ == 0 ? kLookEvery + milliseconds(size_)
                                            : kLookEvery;
    const bool last = left_until(deadline_) <= slice;
    try {
      return store_.get(table_key(name_), last ? left_until(deadline_) : slice);
    } catch (const TimeoutError&) {
      if (last) return tell_all(who_is_missing());
    }
    std::int64_t arrived = 0;
    try {
      arrived = store_.add(key("arrived"), 0, std::min(left_until(deadline_), kLookSeldom));
    } catch (const TimeoutError&) {
      tell_watch_of_silence();
      continue;
    }
    if (arrived == size_) return make_table();
    tell_watch(arrived);
    if (has_will_) continue;
    if (const auto status = anyone_died()) return tell_all(*status);
  }
}

std::optional<Outcome> Exchange::anyone_died() {
  if (rank_ != 0) return died(0);
  for (int rank = 1; rank < size_; ++rank) {
    if (auto status = died(rank)) return status;
  }
  return std::nullopt;
}

std::optional<Outcome> Exchange::died(int rank) {
  std::string& claim = claims_[rank];
  if (claim.empty()) {
    if (!store_.check(rank_key(rank), left_until(deadline_))) return std::nullopt;
    claim = store_.get(rank_key(rank), left_until(deadline_));
  }
  const std::size_t second = claim.find('#', claim.find('#') + 1);
  const std::size_t third = second == std::string::npos ? second : claim.find('#', second + 1);
  if (third == std::string::npos || claim.substr(third + 1) != process_table()) return std::nullopt;
  int pid = 0;
  std::from_chars(claim.data() + second + 1, claim.data() + third, pid);
  if (pid <= 0 || pid == getpid() || is_alive(pid)) return std::nullopt;
  return Outcome(Errc::peer_lost,
                 base::format("lost rank {} of {} ({}): its process ended while ranks met {}; look "
                              "at that rank's output "
                              "for the cause, and start the job again",
                              rank, size_, base::shown_on_line(claim.substr(0, claim.find('#'))),
                              where()))
      .with_culprit(rank);
}

Exchange::Missing Exchange::look_for_missing(Deadline last, bool with_hosts) {
  Missing missing;
  std::set<std::string> hosts;
  for (int rank = 0; rank < size_; ++rank) {
    if (store_.check(rank_key(rank), left_until(last))) {
      if (with_hosts && hosts.size() <= kNamesShown)
        hosts.insert(host_of(store_.get(rank_key(rank), left_until(last))));
      continue;
    }
    if (base::as_size(++missing.count) <= kNamesShown)
      missing.names += base::format("{}{}", missing.names.empty() ? "" : ", ", rank);
  }
  if (base::as_size(missing.count) > kNamesShown)
    missing.names += base::format(" and {} more", base::as_size(missing.count) - kNamesShown);
  missing.hosts = base::format("{}", fmt::join(hosts, ", "));
  return missing;
}

void Exchange::tell_watch(std::int64_t arrived) {
  if (watch_ == nullptr) return;
  const std::string count = base::format("{} of {} ranks", size_ - arrived, size_);
  if (std::exchange(arrived_, arrived) != arrived) watch_->waits_for(count);
  if (!watch_->is_due()) return;
  const std::string line = key(base::format("stall/{}", ++stalls_));
  const std::string ours = std::to_string(rank_);
  if (store_.compare_set(line, "", ours, left_until(deadline_)) != ours) {
    watch_->skip();
    try {
      const std::string text = store_.get(line + "/text", kLookSeldom);
      if (text.starts_with(count)) watch_->waits_for(text);
    } catch (const TimeoutError&) {
      // The other rank may not get to it.
    }
    return;
  }
  const Missing missing = look_for_missing(deadline_, true);
  const std::string text =
      missing.count == 0 ? count : base::format("{}: {}", count, missing.names);
  watch_->waits_for(text);
  store_.set(line + "/text", text, left_until(deadline_));
  watch_->log(who_waits(),
              missing.count == 0
                  ? base::format("all ranks have joined {}, but {} have not written their data",
                                 where(), size_ - arrived)
                  : base::format("{} {} {} not joined {}; the others are on {}",
                                 missing.count == 1 ? "rank" : "ranks", missing.names,
                                 missing.count == 1 ? "has" : "have", where(), missing.hosts));
}

void Exchange::tell_watch_of_silence() {
  if (watch_ == nullptr) return;
  arrived_ = -1;
  watch_->waits_for("an answer of " + store_.describe());
  if (watch_->is_due())
    watch_->log(who_waits(), store_.describe() +
                                 " does not answer; look whether its process (rank 0, or "
                                 "tuttirun) is stopped, or the network cut");
}

Outcome Exchange::who_is_missing() {
  const Missing missing = look_for_missing(Clock::now() + kLastWords, false);
  const double took = std::chrono::duration<double>(Clock::now() - start_).count();
  if (missing.count == 0) {
    return Outcome(Errc::timeout,
                   base::format("all {} ranks have joined {}, but not written all their data "
                                "after {:.1f} s; is one stopped, or the timeout too short?",
                                size_, where(), took));
  }
  const bool one = missing.count == 1;
  return Outcome(
      Errc::timeout,
      base::format("{} {} of {} {} not joined after {:.1f} s {}; {} started, with "
                   "the same MASTER_ADDR and MASTER_PORT (or init_method)? Survivors of a failure "
                   "that have new ranks need a new job name (InitOptions::job_name, "
                   "group_name)",
                   one ? "rank" : "ranks", missing.names, size_, one ? "has" : "have", took,
                   where(), one ? "was it" : "were they"));
}

std::string Exchange::tell_all(const Outcome& status) {
  return store_.compare_set(table_key(name_), "", failure_text(status),
                            std::max(left_until(deadline_), kLastWords));
}

Result<std::vector<std::string>> Exchange::read_table(const std::string& table) {
  const Outcome foreign(Errc::store, base::format("foreign data stands under {}", key("table")));
  if (table.empty()) return foreign;
  if (table.front() == kTable) {
    auto blobs = unpack(std::string_view(table).substr(1), base::as_size(size_));
    if (!blobs) return foreign;
    return *std::move(blobs);
  }
  int code = 0;
  int culprit = kNobody;
  const char* end = table.data() + table.size();
  const auto [after_code, error] = std::from_chars(table.data() + 1, end, code);
  if (table.front() != kFailure || error != std::errc() || after_code == end || code <= 0 ||
      code > static_cast<int>(Errc::internal))
    return foreign;
  const auto [text, bad] = std::from_chars(after_code + 1, end, culprit);
  if (bad != std::errc() || text == end || culprit < kNobody || culprit >= size_) return foreign;
  Outcome status(static_cast<Errc>(code), base::shown_on_line({text + 1, end}));
  return culprit == kNobody ? status : status.with_culprit(culprit);
}

}  // namespace

Result<std::vector<std::string>> exchange(Store& store, std::string_view name, int rank, int size,
                                          const std::string& mine, Deadline deadline,
                                          record::StartWatch* watch) {
  if (size < 1 || rank < 0 || rank >= size || name.empty()) {
    return Outcome(
        Errc::invalid_argument,
        base::format("an exchange \"{}\" of rank {} of {} makes no sense", name, rank, size));
  }
  try {
    return Exchange(store, name, rank, size, deadline, watch).run(mine);
  } catch (const Error& error) {
    return Outcome(error.code(), base::format("rank {} of {} cannot exchange {}: {}", rank, size,
                                              name, error.what()));
  }
}

std::pair<std::string, std::string> will_before(std::string_view name, int rank, int size,
                                                const std::string& where) {
  return {table_key(name), will_of(rank, size, where)};
}

std::string begin_of_refusal() { return failure_text(Outcome(Errc::refused, "")); }

Outcome set_exchange_will(Store& store, std::string_view name, int rank, int size) {
  try {
    store.set_will(table_key(name), will_of(rank, size, store.describe()));
    return {};
  } catch (const Error& error) {
    return error.status();
  }
}

void report_failure(Store& store, std::string_view name, int rank, int size, const Outcome& why) {
  try {
    // An invalid argument of this rank is no invalid argument of theirs.
    const Errc code = why.code() == Errc::invalid_argument ? Errc::peer_left : why.code();
    Outcome told(code, base::format("rank {} of {} ({}) has given up: {}", rank, size, who_we_are(),
                                    why.message()));
    store.compare_set(table_key(name), "", failure_text(told.with_culprit(rank)), kLastWords);
  } catch (const Error&) {
    // The others learn it when their own time is over.
    base::log(base::Level::info, "the store could not be told why this rank gives up");
  }
}

}  // namespace tutti::rendezvous
