#include <nanobind/stl/chrono.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <tutti/config.hpp>

#include "arguments.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "timeout.hpp"
#include "waiting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// The stores of the library.
namespace tutti::python {
namespace {

using std::chrono::milliseconds;

// The key that counts the users that have joined, as in torch.distributed.
constexpr const char* kJoined = "init/";

milliseconds ms_of(nb::handle value, milliseconds fallback) {
  const Timeout timeout = timeout_of(value);
  return timeout ? std::chrono::ceil<milliseconds>(*timeout) : fallback;
}

struct HashStoreHandle : StoreHandle {
  HashStoreHandle() : StoreHandle(make_hash_store(), false) {}
};

struct FileStoreHandle : StoreHandle {
  FileStoreHandle(std::shared_ptr<Store> store, std::string file)
      : StoreHandle(std::move(store), true), path(std::move(file)) {}
  const std::string path;
};

struct TcpStoreHandle : StoreHandle {
  explicit TcpStoreHandle(const std::shared_ptr<TcpStore>& store)
      : StoreHandle(store, true), host(store->host()), port(store->port()) {}
  const std::string host;
  const int port;
};

struct PrefixStoreHandle : StoreHandle {
  PrefixStoreHandle(std::string before, nb::object store, bool remote)
      : StoreHandle(make_prefix_store(before, store_of(store)), remote),
        prefix(std::move(before)),
        under(std::move(store)) {}
  const std::string prefix;
  const nb::object under;
};

// The number of users in torch.distributed's form: negative means unknown.
std::optional<int> users_of(std::optional<int> world_size) {
  return world_size && *world_size < 0 ? std::nullopt : world_size;
}

void new_file_store(FileStoreHandle* self, std::string file_name, std::optional<int> world_size,
                    nb::handle timeout, nb::handle linger) {
  FileStoreOptions options;
  options.path = std::move(file_name);
  options.users = users_of(world_size);
  options.timeout = ms_of(timeout, options.timeout);
  options.linger = ms_of(linger, options.linger);
  new (self) FileStoreHandle(run_interruptibly([options] { return make_file_store(options); }),
                             options.path);
}

// The server waits until all users have joined.
void await_workers(TcpStore& store, const TcpStoreOptions& options, Store::Clock::time_point end) {
  std::int64_t joined = store.add(kJoined, 1);
  while (options.serve && joined < *options.users) {
    if (Store::Clock::now() >= end) {
      raise(Outcome(Errc::timeout, "TCPStore: " + std::to_string(joined) + " of " +
                                       std::to_string(*options.users) + " users have joined " +
                                       store.describe() + " within " +
                                       std::to_string(options.timeout.count()) + " ms"));
    }
    std::this_thread::sleep_for(milliseconds(2));
    joined = store.add(kJoined, 0);
  }
}

// Ctrl-C ends the call; errors are of the same classes as torch.distributed's.
std::shared_ptr<TcpStore> join(const TcpStoreOptions& options, bool wait_for_workers) {
  const auto end = Store::Clock::now() + options.timeout;
  std::shared_ptr<TcpStore> made;
  try {
    made = run_interruptibly([options] { return make_tcp_store(options); });
  } catch (const TimeoutError& error) {
    raise_as("UnreachableError", error.status());
  } catch (const StoreError& error) {
    raise_as("ServeError", error.status());
  }
  if (!options.users || !wait_for_workers) return made;
  try {
    run_interruptibly([made, options, end] { await_workers(*made, options, end); });
  } catch (const TimeoutError& error) {
    raise_as("StoreTimeoutError", error.status());
  }
  return made;
}

void new_tcp_store(TcpStoreHandle* self, std::string host_name, int port,
                   std::optional<int> world_size, bool is_master, nb::handle timeout,
                   bool wait_for_workers, nb::bytes secret, bool encrypt, std::string job,
                   nb::handle linger) {
  if (port < 0 || port > 65535)
    throw nb::value_error(("TCPStore: " + std::to_string(port) + " is no port").c_str());
  TcpStoreOptions options;
  options.host = std::move(host_name);
  options.port = static_cast<std::uint16_t>(port);
  options.serve = is_master;
  options.users = users_of(world_size);
  options.timeout = ms_of(timeout, options.timeout);
  options.linger = ms_of(linger, options.linger);
  const auto* const bytes = static_cast<const std::byte*>(secret.data());
  options.secret = SecretBytes(std::span(bytes, secret.size()));
  options.encrypt = encrypt;
  options.job = std::move(job);
  const Result<Config> config = Config::from_environment();
  raise_if(config.status());
  options.link_timeout = config.value().link_timeout;
  new (self) TcpStoreHandle(join(options, wait_for_workers));
}

}  // namespace

void bind_stores(nb::module_& module) {
  const auto timeout = "timeout"_a = nb::none();
  const auto linger = "linger"_a = 1.0;
  Class<HashStoreHandle, StoreHandle>(module, "HashStore",
                                      "Inside this process, for threads and tests.")
      .def(nb::init<>());

  Class<FileStoreHandle, StoreHandle>(
      module, "FileStore",
      "In a file, for processes that share a file system. `world_size`: how many will use it; the\n"
      "last of them removes the file. None: it stays.")
      .def("__init__", &new_file_store, "file_name"_a, "world_size"_a = nb::none(), nb::kw_only(),
           timeout, linger)
      .def_ro("path", &FileStoreHandle::path);

  Class<TcpStoreHandle, StoreHandle>(
      module, "TCPStore",
      "Served by one process, reached by the others over TCP. The server returns when all\n"
      "`world_size` have connected, unless wait_for_workers is False.")
      .def("__init__", &new_tcp_store, "host_name"_a, "port"_a = 0, "world_size"_a = nb::none(),
           "is_master"_a = false, timeout, "wait_for_workers"_a = true, nb::kw_only(),
           "secret"_a = nb::bytes("", 0), "encrypt"_a = false, "job"_a = "", linger)
      .def_ro("host", &TcpStoreHandle::host)
      .def_ro("port", &TcpStoreHandle::port);

  Class<PrefixStoreHandle, StoreHandle>(
      module, "PrefixStore", "A part of another store: every key k is `<prefix>/k` there.")
      .def(
          "__init__",
          [](PrefixStoreHandle* self, std::string prefix, nb::object store) {
            (void)store_of(store);  // its error is clear
            const bool remote = nb::cast<const StoreHandle&>(store).remote();
            new (self) PrefixStoreHandle(std::move(prefix), std::move(store), remote);
          },
          "prefix"_a, "store"_a)
      .def_ro("prefix", &PrefixStoreHandle::prefix)
      .def_ro("underlying_store", &PrefixStoreHandle::under);
}

}  // namespace tutti::python
