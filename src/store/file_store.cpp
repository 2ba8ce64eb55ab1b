#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/forks.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "os/fd.hpp"
#include "os/file_size_signal.hpp"
#include "os/private_descriptors.hpp"
#include "os/socket.hpp"
#include "store/file_locks.hpp"
#include "store/log.hpp"
#include "store/request_store.hpp"
#include "store/secret.hpp"
#include "store/store_table.hpp"

namespace tutti::store {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using TimePoint = Store::Clock::time_point;

// No notification of changes works on every file system: poll, with growing pauses.
constexpr microseconds kFirstLook{200};
constexpr microseconds kLongestLook{10'000};
constexpr microseconds kLongestLockPause{2'000};
constexpr milliseconds kLastTurnTimeout{1000};
// The most bytes read at a time; longer than the longest record.
constexpr std::size_t kReadAtOnce = std::size_t{80} << 20;
constexpr std::size_t kMostLogBytes = std::size_t{4} << 30;
constexpr long kNfs = 0x6969;
constexpr mode_t kOthers = 077;

void wait_until(TimePoint time) {
  // Without a descriptor this fails only because of a signal: then we check a little earlier.
  (void)os::wait_ready(-1, 0, time);
}

Outcome lock_until(int fd, off_t at, short kind, TimePoint deadline) {
  microseconds pause = kFirstLook / 4;
  while (true) {
    auto got = try_lock(fd, at, kind);
    if (!got) return got.status();
    if (*got) return {};
    if (Store::Clock::now() >= deadline) {
      return Outcome(Errc::timeout,
                     "another process has kept the file locked all the time; is one stopped?");
    }
    wait_until(std::min(deadline, Store::Clock::now() + pause));
    pause = std::min(pause * 2, kLongestLockPause);
  }
}

class Turn {
 public:
  explicit Turn(int fd) noexcept : fd_(fd) {}
  Turn(Turn&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Turn() {
    if (fd_ >= 0) (void)try_lock(fd_, kTurnAt, F_UNLCK);
  }

 private:
  int fd_;
};

class FileStore final : public RequestStore<Store> {
 public:
  explicit FileStore(FileStoreOptions options) : options_(std::move(options)) {
    set_timeout(options_.timeout);
  }
  ~FileStore() override;

  Outcome open();
  [[nodiscard]] SecretBytes derive_secret(std::string_view drawn) const override {
    return closed_to_others_ ? to_secret(drawn) : SecretBytes();
  }
  [[nodiscard]] std::string describe() const override {
    return base::format("the store in {}", options_.path);
  }

 protected:
  Response call(Request request, Deadline deadline) override;

 private:
  [[nodiscard]] Outcome failed(std::string_view why) const {
    return Outcome(Errc::store, base::format("{}: {}", options_.path, why));
  }
  /// Checks the owner of the file, if others must not use it (own_only).
  [[nodiscard]] Outcome check_owner(const struct stat& file) const;
  /// False: the file was removed between opening and locking it.
  Result<bool> open_once(Deadline deadline);
  Result<Turn> take_turn(short kind, Deadline deadline);
  /// Reads what others have written; cuts off what was never finished if we may write.
  Outcome catch_up(bool may_write);
  /// Executes the complete records among the next `count` bytes.
  Outcome read_records(std::size_t count);
  Outcome write_at_end(std::span<const std::byte> bytes);
  /// The answer, or nothing if the request has to wait.
  Result<std::optional<Response>> attempt(const Request& request, Deadline deadline);
  Response run(Request request);
  /// True if the request has to be written down.
  bool would_change(const Request& request);
  bool has(const std::string& key);
  [[nodiscard]] bool unchanged() const;

  /// The right to read and write, which one thread has at a time; nothing if the time is over. It
  /// is not simply a mutex, because its holder may wait long for another process.
  class Use {
   public:
    Use(FileStore& store, Deadline deadline) : store_(store) {
      std::unique_lock lock(store.mutex_);
      has_ = store.free_.wait_until(lock, deadline, [&] { return !store.in_use_; });
      if (has_) store.in_use_ = true;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (!has_) return;
      const std::lock_guard lock(store_.mutex_);
      store_.in_use_ = false;
      store_.free_.notify_one();
    }
    explicit operator bool() const noexcept { return has_; }

   private:
    FileStore& store_;
    bool has_ = false;
  };

  FileStoreOptions options_;
  const Clock::time_point opened_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable free_;
  bool in_use_ = false;
  // Everything below belongs to the thread that uses the store.
  os::Fd fd_;
  bool on_nfs_ = false;
  bool closed_to_others_ = false;
  StoreTable store_table_;
  std::size_t offset_ = 0;  // of the first byte not yet read
  int arrivals_ = 0;
};

Outcome FileStore::open() {
  const auto deadline =
      Clock::now() + std::min<Clock::duration>(options_.timeout, std::chrono::hours(24));
  while (true) {
    auto opened = open_once(deadline);
    if (!opened) return opened.status();
    if (*opened) return {};
    if (Clock::now() >= deadline)
      return Outcome(Errc::timeout, options_.path + ": others remove the file again and again");
  }
}

Result<bool> FileStore::open_once(Deadline deadline) {
  while (true) {
    const base::ForkWatch watch;
    const int links = options_.own_only ? O_NOFOLLOW : 0;
    fd_ = os::Fd(::open(options_.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | links, 0600));
    if (!fd_.valid() && errno == ELOOP)
      return failed("is a symbolic link, which others may have made; name the file itself");
    if (!fd_.valid()) return io_error("cannot open the store's file " + options_.path);
    // Locks belong to the open file: a forked child's copy would keep them when we have died.
    os::keep_private(fd_.get());
    if (!watch.forked()) break;
  }
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return failed("is not a regular file");
  if (options_.own_only) {
    if (Outcome s = check_owner(info); !s) return s;
  }
  struct statfs system {};
  on_nfs_ = ::fstatfs(fd_.get(), &system) == 0 && system.f_type == kNfs;
  auto turn = take_turn(F_WRLCK, deadline);
  if (!turn) return turn.status();
  if (::fstat(fd_.get(), &info) != 0 || info.st_nlink == 0) return false;

  std::array<std::byte, kLogHeadBytes> head{};
  const ssize_t got = ::pread(fd_.get(), head.data(), head.size(), 0);
  if (got < 0) return io_error("cannot read " + options_.path);
  const LogHead kind = check_head(std::span(head).first(base::as_size(got)));
  if (kind == LogHead::foreign)
    return failed("is not the file of a store; it is left as it is, name another one");
  if (kind == LogHead::other_version)
    return failed(
        "was made by another version of tutti; use one version in a job, or name another file");
  // If no living process uses the file, an earlier run that was killed has left it.
  auto alone = try_lock(fd_.get(), kPresenceAt, F_WRLCK);
  if (!alone) return alone.status();
  if (options_.own_only && (info.st_mode & kOthers) != 0) {
    if (!*alone) {
      return failed(
          base::format("is open to others (mode {:04o}) and in use; close it with: chmod "
                       "600 {}, and start all processes again",
                       info.st_mode & 07777, options_.path));
    }
    // Others may have it open already, so a new one takes its place.
    if (::unlink(options_.path.c_str()) == 0) return false;
    if (::fchmod(fd_.get(), info.st_mode & ~kOthers & 07777) != 0)
      return io_error("cannot close to others " + options_.path);
  }
  closed_to_others_ = info.st_uid == ::geteuid() && (info.st_mode & kOthers) == 0;
  if (kind == LogHead::torn || (*alone && options_.fresh)) {
    if (::ftruncate(fd_.get(), 0) != 0) return io_error("cannot empty " + options_.path);
    offset_ = 0;
    if (Outcome s = write_at_end(log_head()); !s) return s;
  }
  offset_ = kLogHeadBytes;
  if (Outcome s = lock_until(fd_.get(), kPresenceAt, F_RDLCK, deadline); !s) return s;
  if (Outcome s = catch_up(true); !s) return s;
  if (Outcome s = write_at_end(encode_arrival()); !s) return s;
  ++arrivals_;
  return true;
}

Outcome FileStore::check_owner(const struct stat& file) const {
  const auto dangerous = [&](std::string_view what, uid_t owner) {
    return failed(base::format(
        "{} to user {}, who could read and change what the ranks tell each other; name "
        "another file",
        what, owner));
  };
  if (file.st_uid != ::geteuid()) return dangerous("belongs", file.st_uid);
  const std::size_t slash = options_.path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : options_.path.substr(0, slash + 1);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return io_error("cannot look at " + folder);
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return dangerous("lies in a folder that belongs", info.st_uid);
  if ((info.st_mode & 022) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return failed(
        base::format("lies in a folder in which others may replace it (mode {:04o}); close that "
                     "with: chmod go-w {}, or name another file",
                     info.st_mode & 07777, folder));
  }
  return {};
}

FileStore::~FileStore() {
  if (!options_.users || !fd_.valid() || is_parents()) return;
  auto linger = base::deadline_after(Clock::now(), options_.linger);
  if (options_.come_within)
    linger = std::min(linger, base::deadline_after(opened_, *options_.come_within));
  while (catch_up(false) && arrivals_ < *options_.users && Clock::now() < linger)
    wait_until(std::min(linger, Clock::now() + kLongestLook));
  auto turn = take_turn(F_WRLCK, Clock::now() + kLastTurnTimeout);
  if (!turn || !catch_up(false)) return;
  // The last user that leaves removes the file, unless further users are expected.
  auto last = try_lock(fd_.get(), kPresenceAt, F_WRLCK);
  struct stat info {};
  if (last && *last && arrivals_ >= *options_.users && ::fstat(fd_.get(), &info) == 0 &&
      info.st_nlink > 0)
    ::unlink(options_.path.c_str());
  // Release it within our turn, and not only when the file is closed: otherwise the next user that
  // leaves would still see us, and none would be the last.
  (void)try_lock(fd_.get(), kPresenceAt, F_UNLCK);
}

Result<Turn> FileStore::take_turn(short kind, Deadline deadline) {
  if (Outcome s = lock_until(fd_.get(), kTurnAt, kind, deadline); !s)
    return Outcome(s.code(), base::format("{}: {}", options_.path, s.message()));
  return Turn(fd_.get());
}

Outcome FileStore::write_at_end(std::span<const std::byte> bytes) {
  if (offset_ + bytes.size() > kMostLogBytes)
    return failed("has grown to its limit; use a new file for each run");
  const os::NoFileSizeSignal no_signal;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      Outcome status = io_error("cannot write to " + options_.path);
      // If this fails too, the rest is a record that was never finished.
      if (::ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0) return status;
      return status;
    }
    done += base::as_size(wrote);
  }
  offset_ += bytes.size();
  return {};
}

Outcome FileStore::catch_up(bool may_write) {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return io_error("cannot look at " + options_.path);
  if (info.st_nlink == 0) return failed("was removed while it was in use");
  const auto size = base::as_size(info.st_size);
  if (size < offset_) return failed("was made shorter while it was in use");
  while (offset_ < size) {
    const std::size_t before = offset_;
    const std::size_t count = std::min(size - offset_, kReadAtOnce);
    if (Outcome s = read_records(count); !s) return s;
    if (offset_ > before) continue;
    if (count < size - offset_) return failed(base::format("is damaged at byte {}", offset_));
    if (may_write && ::ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0)
      return io_error("cannot shorten " + options_.path);
    return {};
  }
  return {};
}

Outcome FileStore::read_records(std::size_t count) {
  std::vector<std::byte> bytes(count);
  const ssize_t got = os::read_at(fd_.get(), bytes, static_cast<off_t>(offset_));
  if (got < 0) return io_error("cannot read " + options_.path);
  auto rest = std::span<const std::byte>(bytes).first(base::as_size(got));
  while (!rest.empty()) {
    auto record = parse_record(rest, Limits());
    if (!record) {
      return failed(base::format("is damaged at byte {} ({}); remove it and start again", offset_,
                                 record.status().message()));
    }
    if (!*record) return {};
    rest = rest.subspan((*record)->bytes);
    offset_ += (*record)->bytes;
    if ((*record)->change)
      run(std::move(*(*record)->change));
    else
      ++arrivals_;
  }
  return {};
}

Response FileStore::run(Request request) {
  // No request here may wait, so no clock and no tickets are needed.
  auto response = store_table_.submit(std::move(request), 0, {});
  if (response) return *std::move(response);
  store_table_.cancel(0);
  Response failure;
  failure.code = Errc::internal;
  failure.text = "a request that waits was carried out";
  return failure;
}

bool FileStore::has(const std::string& key) {
  Request check;
  check.op = Op::check;
  check.keys = {key};
  return run(std::move(check)).number != 0;
}

// Calls that change nothing, such as a compare_set that does not match, must not make the file
// grow.
bool FileStore::would_change(const Request& request) {
  if (!changes(request.op)) return false;
  if (request.op == Op::delete_key) return has(request.keys[0]);
  if (request.op == Op::add) return request.amount != 0 || !has(request.keys[0]);
  if (request.op != Op::compare_set) return true;
  if (!has(request.keys[0])) return request.values[0].empty();
  Request get;
  get.op = Op::get;
  get.keys = request.keys;
  return run(std::move(get)).values == std::vector<std::string>{request.values[0]};
}

Result<std::optional<Response>> FileStore::attempt(const Request& request, Deadline deadline) {
  Request now = request;
  if (now.op == Op::queue_pop) now.op = Op::queue_try_pop;
  const bool writes = changes(now.op);
  // Complete records never change and have a checksum. So reading needs no lock if the same kernel
  // writes and reads. A record that looks damaged may be incomplete: read it again in our turn.
  std::optional<Turn> turn;
  if (writes || on_nfs_ || !catch_up(false)) {
    auto taken = take_turn(writes ? F_WRLCK : F_RDLCK, deadline);
    if (!taken) return taken.status();
    turn.emplace(std::move(*taken));
    if (Outcome s = catch_up(writes); !s) return s;
  }

  const std::optional<Response> not_yet;
  if (request.op == Op::get || request.op == Op::wait || request.op == Op::multi_get) {
    Request check = request;
    check.op = Op::check;
    if (run(std::move(check)).number == 0) return not_yet;
  }
  if (now.op == Op::queue_try_pop) {
    Request length = now;
    length.op = Op::queue_len;
    if (run(std::move(length)).number == 0)
      return request.op == Op::queue_pop ? not_yet : std::optional<Response>(Response());
  }
  if (would_change(now)) {
    // Write to the file first: a change that cannot be written has not happened. A change that the
    // table refuses is refused by every reader.
    if (Outcome s = write_at_end(encode_change(now)); !s) return s;
  }
  return std::optional<Response>(run(std::move(now)));
}

// Reads without a lock, which is correct if the same kernel writes and reads.
bool FileStore::unchanged() const {
  struct stat info {};
  return !on_nfs_ && ::fstat(fd_.get(), &info) == 0 && info.st_nlink > 0 &&
         base::as_size(info.st_size) == offset_;
}

Response FileStore::call(Request request, Deadline deadline) {
  microseconds pause = kFirstLook;
  std::optional<std::size_t> looked;  // the length of the file at the last check
  Response response;
  while (true) {
    // If others hold the lock for a moment, a call with a short timeout must not fail.
    const Deadline patient = std::max(deadline, Clock::now() + milliseconds(100));
    if (const Use use(*this, patient); use) {
      if (looked != offset_ || !unchanged()) {
        auto answer = attempt(request, patient);
        looked = offset_;
        if (!answer) {
          response.code = answer.status().code();
          response.text = answer.status().message();
          return response;
        }
        if (*answer) return std::move(**answer);
      }
      if (Clock::now() >= deadline) {
        response.code = Errc::timeout;
        for (const std::string& key : request.keys) {
          if (request.op == Op::queue_pop || !has(key)) response.values.push_back(key);
        }
        return response;
      }
    } else {
      response.code = Errc::timeout;
      response.text = base::format(
          "{}: another thread has used the store all the time; it waits for a process that keeps "
          "the file locked",
          options_.path);
      return response;
    }
    wait_until(std::min(deadline, Clock::now() + pause));
    pause = std::min(pause * 2, kLongestLook);
  }
}

}  // namespace
}  // namespace tutti::store

namespace tutti {
inline namespace v0 {

std::shared_ptr<Store> make_file_store(const FileStoreOptions& options) {
  if (options.path.empty()) raise(Outcome(Errc::invalid_argument, "a file store needs a path"));
  if (options.timeout < std::chrono::milliseconds::zero() ||
      options.linger < std::chrono::milliseconds::zero() ||
      options.come_within.value_or(options.linger) < std::chrono::milliseconds::zero())
    raise(Outcome(Errc::invalid_argument, "a store's timeout and linger must not be negative"));
  if (options.users && *options.users < 1)
    raise(Outcome(Errc::invalid_argument, "a store has at least one user"));
  auto store = std::make_shared<store::FileStore>(options);
  raise_if(store->open());
  return store;
}

}  // namespace v0
}  // namespace tutti
