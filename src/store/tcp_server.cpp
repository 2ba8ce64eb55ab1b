#include "store/tcp_server.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/forks.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "base/no_signals.hpp"
#include "os/descriptors.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"
#include "store/tcp_server_loop.hpp"

namespace tutti::store {
namespace {

using std::chrono::milliseconds;

// All users may come at once.
constexpr int kBacklog = 4096;

/// Once per job, however many groups it makes.
void warn_without_secret(const os::Address& address, std::uint64_t job) {
  struct Warned {
    base::ForkMutex mutex;
    std::set<std::string> jobs;
  };
  static auto* const warned = new Warned;  // never destroyed: stores may be served at exit
  {
    const std::lock_guard lock(warned->mutex);
    if (!warned->jobs.insert(base::format("{} {}", address.to_string(), job)).second) return;
  }
  base::log(base::Level::warning,
            base::format("the store at {} has no secret (TUTTI_INSECURE): anybody who reaches "
                         "this port can join, read and change data",
                         address.to_string()));
}

/// How many pending connections at once. They leave descriptors to users and to the program.
std::size_t most_pending(const TcpServerOptions& options) {
  const auto users = base::as_size(std::max(options.users.value_or(0), 0));
  const std::size_t wanted = options.max_pending + users;
  if (!os::ensure_descriptors(2 * wanted + users, "the store")) os::raise_descriptor_limit();
  const std::size_t free = os::free_descriptors().value_or(2 * wanted);
  return std::clamp(free / 2, std::size_t{1}, std::max(wanted, std::size_t{1}));
}

}  // namespace

TcpServer::TcpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Outcome TcpServer::start_thread() {
  const base::NoSignals no_signals;
  try {
    thread_ = std::thread([raw = loop_.get()] { raw->run_on_loop(); });
  } catch (const std::system_error& error) {
    return Outcome(Errc::resource,
                   base::format("cannot start a thread for the store at {}: {}; {}",
                                address().to_string(), error.what(), os::kNoThreadHint));
  }
  pthread_setname_np(thread_.native_handle(), "tutti-store");
  return {};
}

Result<std::unique_ptr<TcpServer>> TcpServer::start(TcpServerOptions options) {
  if (options.encrypt) {
    if (Outcome status = secure::check_can_encrypt(options.identity.secret); !status) return status;
  }
  auto listener = os::listen_tcp(options.address, kBacklog);
  if (!listener) return listener.status();
  auto address = os::local_address(listener->get());
  if (!address) return address.status();
  if (options.identity.secret.empty()) warn_without_secret(*address, options.identity.job);
  options.max_pending = most_pending(options);
  auto events = os::EventLoop::create();
  if (!events) return events.status();
  auto loop = std::make_unique<Loop>(std::move(options), std::move(*listener), *address,
                                     std::move(*events));
  if (Outcome status = loop->watch_listener(); !status) return status;
  std::unique_ptr<TcpServer> server(new TcpServer(std::move(loop)));
  if (Outcome status = server->start_thread(); !status) return status;
  return server;
}

TcpServer::~TcpServer() { close(milliseconds::zero()); }

const os::Address& TcpServer::address() const noexcept { return loop_->address(); }

void TcpServer::close(milliseconds linger) {
  if (!thread_.joinable()) return;
  loop_->close(linger);
  thread_.join();
  loop_->shut();
}

}  // namespace tutti::store
