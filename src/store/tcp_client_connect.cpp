#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "os/address.hpp"
#include "os/growing_pause.hpp"
#include "store/tcp_client.hpp"
#include "store/wire.hpp"

// How a user reaches a server.
namespace tutti::store {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Attempt {
  Outcome status;
  bool final = false;  // trying again cannot help
};

/// Sends the bytes that the handshake has, and reads until it has more to send.
Outcome take_turn(secure::Stream& stream, secure::Handshake& handshake, os::Deadline deadline) {
  if (Outcome s = stream.write_all(handshake.outgoing(), deadline); !s) return s;
  handshake.sent(handshake.outgoing().size());
  std::array<std::byte, secure::kLongestFrame> buffer;
  std::size_t most = secure::kFixedBytes;  // they show whether the rest will come
  while (handshake.wanted() > 0 && handshake.outgoing().empty()) {
    const auto bytes = std::span(buffer).first(std::min(most, handshake.wanted()));
    if (Outcome s = stream.read_all(bytes, deadline); !s) return s;
    handshake.feed(bytes);
    most = buffer.size();
  }
  return {};
}

// If a server takes longer than `hello_timeout` to answer, we connect again. Not after it has our
// proof: then it knows us, and would take the end of this connection for our end.
Attempt shake_hands(secure::Stream& stream, const secure::Party& mine, milliseconds hello_timeout,
                    os::Deadline deadline, const Request* first) {
  secure::Nonce nonce;
  if (Outcome s = secure::random_bytes(nonce); !s) return {s, true};
  auto dialled = os::peer_address(stream.fd());
  if (!dialled) return {dialled.status()};
  secure::Handshake handshake = secure::Handshake::dialler(mine, 0, nonce, *dialled);
  const auto failed = [&] { return handshake.state() == secure::Handshake::State::failed; };
  const auto failure = [&] {
    return Attempt{handshake.failure(), handshake.failure().code() != Errc::peer_left};
  };
  if (failed()) return failure();
  const os::Deadline soon = std::min(deadline, Clock::now() + hello_timeout);
  if (Outcome s = take_turn(stream, handshake, soon); !s) return {s};
  if (failed()) return failure();
  if (mine.encrypts) {
    if (Outcome s = stream.write_all(handshake.outgoing(), deadline); !s) return {s};
    handshake.sent(handshake.outgoing().size());
    auto key = handshake.key_of_encryption();
    if (!key) return {key.status(), true};
    if (Outcome s = stream.encrypt(*key, {secure::Tls::Role::client, secure::Tls::Use::quiet}); !s)
      return {s, true};
    if (Outcome s = stream.shake_until(deadline); !s) return {s, s.code() == Errc::refused};
    handshake.repeat();
  }
  const auto proof = handshake.outgoing();
  std::vector<std::byte> bytes(proof.begin(), proof.end());
  handshake.sent(proof.size());
  if (first != nullptr) {
    const std::vector<std::byte> frame = encode_request(*first, TcpClient::kFirstId);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  if (Outcome s = stream.write_all(bytes, deadline); !s) return {s};
  if (Outcome s = take_turn(stream, handshake, deadline); !s) return {s};
  return failed() ? Attempt{handshake.failure(), true} : Attempt{};
}

Attempt try_once(const os::Address& address, const secure::Party& mine, os::Deadline deadline,
                 milliseconds link_timeout, const Request* first, secure::Stream& stream) {
  auto connected = os::connect_tcp(address, std::min(deadline, Clock::now() + link_timeout));
  if (!connected) return {connected.status()};
  if (Outcome s = os::set_no_delay(connected->get()); !s) return {s};
  if (Outcome s = os::set_keep_alive(connected->get(), link_timeout); !s) return {s};
  secure::Stream shaken(std::move(*connected));
  Attempt attempt = shake_hands(shaken, mine, link_timeout, deadline, first);
  if (attempt.status) stream = std::move(shaken);
  return attempt;
}

}  // namespace

Outcome TcpClient::probe(const Target& target, const secure::Party& mine, os::Deadline deadline) {
  auto addresses = os::resolve_until(target.host, target.port, deadline, target.lookup);
  if (!addresses) return addresses.status();
  secure::Nonce nonce;
  if (Outcome s = secure::random_bytes(nonce); !s) return s;
  Outcome last;
  Outcome objection;
  auto addresses_left = static_cast<int>(addresses->size());
  for (const os::Address& address : *addresses) {
    // One that answers nothing does not hide the server at another.
    const auto now = Clock::now();
    const os::Deadline until = now + (deadline - now) / addresses_left--;
    auto connected = os::connect_tcp(address, until);
    if (!connected) {
      // Not the code of a refused connection: that is for a store that refuses us.
      last = Outcome(Errc::timeout, std::string(connected.status().message()));
      continue;
    }
    secure::Stream stream(std::move(*connected));
    auto dialled = os::peer_address(stream.fd());
    if (!dialled) {
      last = dialled.status();
      continue;
    }
    secure::Handshake handshake = secure::Handshake::dialler(mine, 0, nonce, *dialled);
    last = take_turn(stream, handshake, until);
    if (last && handshake.state() == secure::Handshake::State::failed) {
      const bool ours = secure::differs_within_job(handshake.refusal());
      last = Outcome(handshake.foreign() ? Errc::unsupported
                     : ours              ? Errc::disagreement
                                         : Errc::refused,
                     base::format("cannot use the store at {}: {}", address.to_string(),
                                  handshake.failure().message()));
    }
    if (last) return last;
    // A relay at one address does not hide the server at another.
    if (last.code() == Errc::disagreement || (objection && last.code() == Errc::refused))
      objection = last;
  }
  return objection ? last : objection;
}

Result<std::unique_ptr<TcpClient>> TcpClient::connect(const Target& target,
                                                      const secure::Party& mine,
                                                      os::Deadline deadline, const Request* first) {
  const auto start = Clock::now();
  os::GrowingPause pause;
  std::string name;
  Outcome last;
  for (int attempts = 1;; ++attempts) {
    // The last attempt begins at the deadline: only an answer at once tells more than those before.
    const bool has_time = last.ok() || Clock::now() < deadline;
    // Resolved at each attempt: a host that was started again may have another address.
    auto addresses = os::resolve_until(target.host, target.port, deadline, target.lookup);
    if (!addresses && (last.ok() || addresses.status().code() != Errc::timeout)) {
      return Outcome(
          addresses.status().code(),
          base::format("cannot reach the store: {}; is the name right, and does the name "
                       "server of this host know it?",
                       addresses.status().message()));
    }
    if (!addresses) addresses = std::vector<os::Address>{};
    if (!addresses->empty()) {
      name = addresses->size() == 1 ? addresses->front().to_string()
                                    : base::format("{}:{}", target.host, target.port);
    }
    Outcome objection;  // of the first one that is not ours
    for (const os::Address& address : *addresses) {
      secure::Stream stream;
      const Attempt attempt = try_once(address, mine, deadline, target.link_timeout, first, stream);
      if (attempt.status) {
        auto ours = os::local_address(stream.fd());
        if (!ours) return ours.status();
        std::unique_ptr<TcpClient> client(
            new TcpClient(std::move(stream), {*ours, address}, name, target.link_timeout));
        if (first != nullptr) client->slots_.emplace(kFirstId, std::nullopt);
        return client;
      }
      if (attempt.final && objection) {
        objection =
            Outcome(Errc::refused, base::format("cannot use the store at {}: {}",
                                                address.to_string(), attempt.status.message()));
      }
      if (has_time || attempt.status.code() != Errc::timeout) last = attempt.status;
    }
    // Another address of the name may be that of our server, so all are tried before.
    if (!objection) return objection;
    if (target.on_wait)
      target.on_wait(base::format("the store at {}", name),
                     base::format("cannot be reached ({})", last.message()));
    if (Clock::now() >= deadline) {
      const auto took = std::chrono::duration<double>(Clock::now() - start).count();
      return Outcome(Errc::timeout,
                     base::format("cannot reach the store at {} within {:.1f} s ({} attempts; the "
                                  "last: {}); is the process that serves it (rank 0, or tuttirun) "
                                  "running, and may this host reach that port?",
                                  name, took, attempts, last.message()));
    }
    // Nothing tells us when a port begins to be listened on: wait a little longer each time.
    if (auto waited = os::wait_ready(-1, 0, std::min(deadline, Clock::now() + pause.next()));
        !waited)
      return waited.status();
  }
}

}  // namespace tutti::store
