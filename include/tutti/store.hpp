#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/secret_bytes.hpp>

namespace tutti::store {
struct Served;
}

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// A small table shared by the ranks of a job: keys and values are byte strings. Used to find each
/// other; collectives never touch it.
///
/// Threads: any, at once.
/// Errors:  TimeoutError when the time is over, StoreError when the store is gone or refuses,
///          InvalidArgument for a key or value that is too long.
/// For a store of your own, derive and override the `do_...` functions; those that are not pure
/// have a correct, slower form built on the others.
class Store {
 public:
  using Clock = std::chrono::steady_clock;
  /// Absent: the store's own timeout.
  using Timeout = std::optional<std::chrono::milliseconds>;
  using KeyValue = std::pair<std::string, std::string>;

  // The longest that is taken; beyond it InvalidArgument.
  static constexpr std::size_t kMaxKeyBytes = 4096;
  static constexpr std::size_t kMaxValueBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxWills = 16;
  static constexpr std::size_t kMaxWillBytes = std::size_t{64} << 10;
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// Stores `value`, replacing an earlier one, and wakes the calls that wait for the key.
  void set(std::string_view key, std::string_view value, Timeout timeout = {});
  /// The value; waits until the key is there.
  std::string get(std::string_view key, Timeout timeout = {});
  /// Adds to a number (absent: 0) and returns the sum. The value is decimal text.
  std::int64_t add(std::string_view key, std::int64_t amount, Timeout timeout = {});
  /// True if all keys are there. Does not wait for them.
  bool check(std::span<const std::string> keys, Timeout timeout = {});
  bool check(std::initializer_list<std::string> keys, Timeout timeout = {});
  bool check(std::string_view key, Timeout timeout = {});
  /// Waits until all keys are there.
  void wait(std::span<const std::string> keys, Timeout timeout = {});
  void wait(std::initializer_list<std::string> keys, Timeout timeout = {});
  void wait(std::string_view key, Timeout timeout = {});
  /// Sets the key to `desired` if its value is `expected`, or if it is absent and `expected` is
  /// empty. Returns the value that stands afterwards; `expected` if the key is absent and stays so.
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                          Timeout timeout = {});
  /// Removes the key; false if it was not there.
  bool delete_key(std::string_view key, Timeout timeout = {});
  /// How many keys there are (queues not counted).
  std::int64_t num_keys(Timeout timeout = {});
  /// All keys, sorted (queues not counted).
  std::vector<std::string> list_keys(Timeout timeout = {});
  /// Appends to the value (absent: empty).
  void append(std::string_view key, std::string_view value, Timeout timeout = {});
  /// The values in the order of the keys; waits until all are there.
  std::vector<std::string> multi_get(std::span<const std::string> keys, Timeout timeout = {});
  std::vector<std::string> multi_get(std::initializer_list<std::string> keys, Timeout timeout = {});
  /// Stores all pairs.
  void multi_set(std::span<const KeyValue> pairs, Timeout timeout = {});

  /// Puts a value at the end of a queue. Queues and keys have separate names.
  void queue_push(std::string_view queue, std::string_view value, Timeout timeout = {});
  /// Takes the first value of a queue; waits until there is one. The longest wait is served first.
  std::string queue_pop(std::string_view queue, Timeout timeout = {});
  /// Takes the first value of a queue, or nothing if it is empty now.
  std::optional<std::string> queue_try_pop(std::string_view queue, Timeout timeout = {});
  std::int64_t queue_len(std::string_view queue, Timeout timeout = {});

  /// A last will: when this process's connection to the store ends without a good-bye (it was
  /// killed, its host is gone), the store sets `key` to `value` at once, unless the key is there by
  /// then, and so wakes the calls that wait for it. Letting go of the store drops all wills. A
  /// later will for the same key replaces the earlier one; at most `kMaxWills` of `kMaxWillBytes`
  /// each. False: this store cannot do it, and has done nothing.
  bool set_will(std::string_view key, std::string_view value, Timeout timeout = {});
  /// Takes a will back; does nothing if there is none.
  void drop_will(std::string_view key, Timeout timeout = {});

  [[nodiscard]] std::chrono::milliseconds get_timeout() const noexcept;  ///< of calls that say none
  void set_timeout(std::chrono::milliseconds timeout);                   ///< positive

  /// A secret from `drawn`, a value that processes have drawn in this store: only processes which
  /// share the store can compute it, nobody who reads the value on its way. Empty: others can, too;
  /// ranks that meet in such a store have proved nothing to each other.
  [[nodiscard]] virtual SecretBytes derive_secret(std::string_view drawn) const;

  /// Names the store in messages, e.g. "the store at 10.0.0.1:29500".
  [[nodiscard]] virtual std::string describe() const { return "the store"; }

  /// The connection to the server that keeps this store, for the library's own use. Null: none.
  [[nodiscard]] virtual std::shared_ptr<const store::Served> served() const { return nullptr; }

 protected:
  using Deadline = Clock::time_point;

  // Arguments are checked and the deadline is set when these are called. On failure they throw.
  virtual void do_set(std::string_view key, std::string_view value, Deadline deadline) = 0;
  virtual std::string do_get(std::string_view key, Deadline deadline) = 0;
  virtual std::int64_t do_add(std::string_view key, std::int64_t amount, Deadline deadline) = 0;
  virtual bool do_check(std::span<const std::string> keys, Deadline deadline) = 0;
  virtual void do_wait(std::span<const std::string> keys, Deadline deadline) = 0;
  virtual std::string do_compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired, Deadline deadline) = 0;
  virtual bool do_delete_key(std::string_view key, Deadline deadline) = 0;
  virtual std::vector<std::string> do_list_keys(Deadline deadline) = 0;

  virtual std::int64_t do_num_keys(Deadline deadline);
  virtual void do_append(std::string_view key, std::string_view value, Deadline deadline);
  virtual std::vector<std::string> do_multi_get(std::span<const std::string> keys,
                                                Deadline deadline);
  virtual void do_multi_set(std::span<const KeyValue> pairs, Deadline deadline);
  virtual void do_queue_push(std::string_view queue, std::string_view value, Deadline deadline);
  virtual std::string do_queue_pop(std::string_view queue, Deadline deadline);
  virtual std::optional<std::string> do_queue_try_pop(std::string_view queue, Deadline deadline);
  virtual std::int64_t do_queue_len(std::string_view queue, Deadline deadline);
  virtual bool do_set_will(std::string_view key, std::string_view value, Deadline deadline);
  virtual void do_drop_will(std::string_view key, Deadline deadline);

 private:
  [[nodiscard]] Deadline deadline_of(Timeout timeout) const;

  std::atomic<std::int64_t> timeout_ms_{kDefaultTimeout.count()};
};

/// A store inside this process, for threads and tests.
std::shared_ptr<Store> make_hash_store();

/// A part of another store: every key and queue `k` is `<prefix>/k` there. `num_keys` and
/// `list_keys` tell of this part only.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

struct FileStoreOptions {  ///< Which file, and when it goes.
  /// Made if it is not there, closed to other users; an empty one will do. On a file system that
  /// all users see and that has locks.
  std::string path;
  /// How many processes will use the store. The last of them to leave removes the file. Absent: it
  /// stays, with all that is in it.
  std::optional<int> users = {};
  /// How long a user that leaves early waits for the remaining `users`, so that they still see its
  /// values (for one, why it leaves).
  std::chrono::milliseconds linger = std::chrono::seconds(1);
  /// A user that has not come this long after opening is not waited for. Absent: no such limit.
  std::optional<std::chrono::milliseconds> come_within = {};
  /// Empty the file if no process that uses it lives: its content is from an earlier run.
  bool fresh = false;
  /// Refuse a file that another user owns or may replace, or that is a symbolic link. A file that
  /// others may open is replaced by a new one.
  bool own_only = false;
  /// For opening, and the default of every call.
  std::chrono::milliseconds timeout = Store::kDefaultTimeout;
};

/// A store in a file, for processes that share a file system and no port. Processes may be killed
/// at any moment: what one was writing then has not happened. A process that waits looks again
/// every 10 ms; the longest wait for a queue is not served first. docs/design/file-store.md has
/// more. Throws as `Store` does.
std::shared_ptr<Store> make_file_store(const FileStoreOptions& options);

struct TcpStoreOptions {  ///< Where the store is, and who may use it.
  /// Where the server is; numeric or a name. A server listens on this address and no other;
  /// "0.0.0.0" and "::" mean all addresses of both families.
  std::string host = "127.0.0.1";
  /// 0 lets a server pick a free one; see `TcpStore::port`.
  std::uint16_t port = 0;
  /// Serve the store from this process, and use it.
  bool serve = false;
  /// How many processes will use the store, the server's own included. A server that is told keeps
  /// serving, when its owner lets go of it, until that many have left, at most `linger`.
  std::optional<int> users = {};
  std::chrono::milliseconds linger = std::chrono::seconds(1);
  /// A user that has not come this long after the server began is not waited for. Absent: whenever
  /// that was.
  std::optional<std::chrono::milliseconds> come_within = {};
  /// For connecting, and the default of every call.
  std::chrono::milliseconds timeout = Store::kDefaultTimeout;
  /// Known to all users, which prove it to each other; 32 bytes or more. Empty: TUTTI_SECRET_FD or
  /// TUTTI_SECRET_FILE, else the user's own key; none where TUTTI_INSECURE says so.
  SecretBytes secret = {};
  /// Encrypt the connection (TLS 1.3), with a key that comes from the secret; the same at the
  /// server and its users.
  bool encrypt = false;
  /// Name of the job: a user of another job is refused.
  std::string job = {};
  /// Tells apart stores that follow each other on one port: a user of a later generation tries
  /// until the later server is there. 0 at the server: any.
  std::uint32_t generation = 0;
  /// How long the host at the other end may answer nothing before it counts as lost, at least a
  /// second; see Config::link_timeout.
  std::chrono::milliseconds link_timeout = std::chrono::seconds(15);
};

/// A store that one process serves and others reach by TCP.
class TcpStore : public Store {
 public:
  [[nodiscard]] virtual const std::string& host() const noexcept = 0;  ///< as given
  [[nodiscard]] virtual std::uint16_t port() const noexcept = 0;       ///< the one really used
};

/// Serves or joins a store. A client tries until the timeout, since the server may start later.
/// Throws as `Store` does.
std::shared_ptr<TcpStore> make_tcp_store(const TcpStoreOptions& options);

}  // namespace v0
}  // namespace tutti
