#include <mutex>
#include <utility>

#include "base/bounded_lock.hpp"
#include "base/deadline.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "os/resolver.hpp"
#include "secure/stream.hpp"
#include "store/request_store.hpp"
#include "store/secret.hpp"
#include "store/served.hpp"
#include "store/tcp_store.hpp"

namespace tutti::store {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGoodByeTimeout{250};
constexpr std::chrono::seconds kLongestLinkTimeout{32767};  // that the kernel takes

class TcpStoreImpl final : public RequestStore<TcpStore> {
 public:
  TcpStoreImpl(std::string host, std::uint16_t port, std::unique_ptr<TcpServer> server,
               std::shared_ptr<TcpClient> client, const TcpStoreOptions& options,
               SecretBytes secret)
      : host_(std::move(host)),
        port_(port),
        linger_(options.linger),
        server_(std::move(server)),
        client_(std::move(client)),
        secret_(std::move(secret)) {
    set_timeout(options.timeout);
  }

  ~TcpStoreImpl() override {
    if (!is_parents()) {
      const std::lock_guard lock(leaving_);
      say_good_bye();
      return;
    }
    // The thread is not here, and another that is not here may hold the locks.
    (void)server_.release();
    (void)new std::shared_ptr<TcpClient>(std::move(client_));
  }
  void leave() {
    // At exit, which may come in a signal handler below the holder of the lock.
    const auto lock = base::lock_until(leaving_, Clock::now() + kGoodByeTimeout);
    if (lock.owns_lock() && !is_parents()) say_good_bye();
  }
  void say_good_bye() {
    if (std::exchange(left_, true)) return;
    client_->leave(Clock::now() + kGoodByeTimeout);
    if (server_) server_->close(linger_);
  }

  [[nodiscard]] const std::string& host() const noexcept override { return host_; }
  [[nodiscard]] std::uint16_t port() const noexcept override { return port_; }
  [[nodiscard]] std::shared_ptr<const Served> served() const override {
    return std::make_shared<const Served>(Served{client_});
  }
  [[nodiscard]] SecretBytes derive_secret(std::string_view drawn) const override {
    if (secret_.empty()) return {};
    auto secret = store::derive_secret(secret_, drawn);
    if (!secret) raise(secret.status());
    return std::move(*secret);
  }
  [[nodiscard]] std::string describe() const override {
    const bool v6 = host_.find(':') != std::string::npos;
    return base::format("the store at {}{}{}:{}", v6 ? "[" : "", host_, v6 ? "]" : "", port_);
  }

 protected:
  Response call(Request request, Deadline deadline) override {
    return client_->call(request, deadline);
  }
  bool do_set_will(std::string_view key, std::string_view value, Deadline deadline) override {
    ask(Op::set_will, {std::string(key)}, {std::string(value)}, deadline);
    return true;
  }
  void do_drop_will(std::string_view key, Deadline deadline) override {
    ask(Op::drop_will, {std::string(key)}, {}, deadline);
  }

 private:
  std::string host_;
  std::uint16_t port_ = 0;
  milliseconds linger_;
  std::unique_ptr<TcpServer> server_;
  std::shared_ptr<TcpClient> client_;
  const SecretBytes secret_;
  std::mutex leaving_;
  bool left_ = false;  ///< under leaving_
};

/// In the order in which they are tried.
Result<std::vector<os::Address>> addresses_of(const TcpStoreOptions& options, Listens listens,
                                              os::Deadline deadline) {
  if (listens != Listens::as_told)
    return std::vector<os::Address>{listening_address(options.host, options.port)};
  return os::resolve_until(options.host, options.port, deadline);
}

JobIdentity identity_of(const TcpStoreOptions& options, const JobSecret& secret) {
  return {
      .job = base::fnv_of(options.job), .generation = options.generation, .secret = secret.bytes};
}

Result<std::unique_ptr<TcpServer>> serve(const TcpStoreOptions& options, const JobSecret& secret,
                                         Listens listens, const KeyAndText& when_refused,
                                         os::Deadline deadline) {
  auto addresses = addresses_of(options, listens, deadline);
  if (!addresses) return addresses.status();
  Outcome last;
  // A name may stand for addresses this host does not have, such as ::1 where IPv6 is switched off.
  for (const os::Address& address : *addresses) {
    TcpServerOptions server;
    server.address = address;
    server.identity = identity_of(options, secret);
    server.secret_source = secret.source;
    server.encrypt = options.encrypt;
    if (listens == Listens::beside_agent) server.told.set_port(options.port);
    server.users = options.users;
    server.when_refused = when_refused;
    server.link_timeout = server.hello_timeout = options.link_timeout;
    if (options.come_within)
      server.come_by = base::deadline_after(Store::Clock::now(), *options.come_within);
    auto started = TcpServer::start(std::move(server));
    if (started) return started;
    last = started.status();
  }
  if (last.code() == Errc::resource && last.message().find("ulimit") != std::string_view::npos)
    return Outcome(Errc::resource, base::format("cannot serve the store: {}", last.message()));
  return Outcome(Errc::store,
                 base::format("cannot serve the store: {}; is the port used by another job, or the "
                              "address not one of this host?",
                              last.message()));
}

}  // namespace

os::Address listening_address(std::string_view host, std::uint16_t port) {
  os::Address address;  // unspecified
  if (auto literal = os::Address::parse(host, port); literal && literal->is_loopback())
    address = *literal;
  address.set_port(port);
  return address;
}

Outcome probe_tcp_store(const TcpStoreOptions& options, const JobSecret& secret,
                        std::chrono::milliseconds timeout) {
  return TcpClient::probe({options.host, options.port, options.link_timeout},
                          store_party(identity_of(options, secret), options.encrypt, secret.source),
                          base::deadline_after(Store::Clock::now(), timeout));
}

JoinedStore join_tcp_store(const TcpStoreOptions& options, const JobSecret& secret,
                           const Request* first, Listens listens, const KeyAndText& when_refused,
                           const OnWait& on_wait) {
  if (options.timeout < std::chrono::milliseconds::zero() ||
      options.linger < std::chrono::milliseconds::zero() ||
      options.come_within.value_or(options.linger) < std::chrono::milliseconds::zero())
    raise(Outcome(Errc::invalid_argument, "a store's timeout and linger must not be negative"));
  if (options.link_timeout <= milliseconds::zero() || options.link_timeout > kLongestLinkTimeout)
    raise(Outcome(Errc::invalid_argument,
                  base::format("a store's link_timeout must be positive and at most {} s",
                               std::chrono::seconds(kLongestLinkTimeout).count())));
  if (!options.serve && options.port == 0)
    raise(Outcome(Errc::invalid_argument, "a store's user needs the port of its server"));
  if (options.encrypt) raise_if(secure::check_can_encrypt(secret.bytes));
  const auto deadline = base::deadline_after(Store::Clock::now(), options.timeout);
  std::unique_ptr<TcpServer> server;
  TcpClient::Target target{options.host, options.port, options.link_timeout, {}, on_wait};
  if (options.serve) {
    auto started = serve(options, secret, listens, when_refused, deadline);
    if (!started) raise(started.status());
    server = std::move(*started);
    const os::Address& address = server->address();
    target = {address.is_unspecified() ? "127.0.0.1" : address.host(),
              address.port(),
              options.link_timeout,
              {},
              on_wait};
  }
  Result<std::unique_ptr<TcpClient>> client = TcpClient::connect(
      target, store_party(identity_of(options, secret), options.encrypt, secret.source), deadline,
      first);
  if (!client) raise(client.status());
  JoinedStore joined;
  if (first != nullptr) {
    joined.answer = (*client)->first_answer(deadline);
    if (joined.answer.code != Errc::ok) {
      raise(describe_failure(first->op, first->keys.front(), first->keys.size(), joined.answer,
                             options.timeout, "the store"));
    }
  }
  joined.client = std::move(*client);
  const auto store = std::make_shared<TcpStoreImpl>(options.host, target.port, std::move(server),
                                                    joined.client, options, secret.bytes);
  joined.leave = [self = store.get()] { self->leave(); };
  joined.store = store;
  return joined;
}

std::shared_ptr<TcpStore> make_tcp_store(const TcpStoreOptions& options, const OnWait& on_wait) {
  std::optional<SecretBytes> given;
  if (!options.secret.empty()) given = options.secret;
  auto secret = job_secret({}, given, "the store");
  if (!secret) raise(secret.status());
  return join_tcp_store(options, *secret, nullptr, Listens::as_told, {}, on_wait).store;
}

}  // namespace tutti::store

namespace tutti {
inline namespace v0 {

std::shared_ptr<TcpStore> make_tcp_store(const TcpStoreOptions& options) {
  return store::make_tcp_store(options, {});
}

}  // namespace v0
}  // namespace tutti
