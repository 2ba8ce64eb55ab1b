#pragma once

#include "contract/transport/tcp_fixture.hpp"
#include "secure/handshake.hpp"

namespace tutti::transport::test {

/// A connection to a transport's port without a transport at our end. Never blocks.
class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    auto parsed = os::Address::parse_endpoint(address);
    auto fd = os::start_connect(parsed.value());
    fd_ = std::move(fd.value());
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// All of it, or nothing more if the socket is closed or full.
  std::size_t say(std::span<const std::byte> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      auto sent = os::send_some(fd_.get(), bytes.subspan(done));
      if (!sent || *sent == 0) break;
      done += *sent;
    }
    return done;
  }
  std::size_t say(std::string_view text) {
    return say({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  }
  /// Reads what is there; true once the other side has closed.
  bool closed() {
    std::byte buffer[4096];
    while (true) {
      auto got = os::receive_some(fd_.get(), buffer);
      if (!got || !got->has_value()) return true;
      if (**got == 0) return false;
      heard_.insert(heard_.end(), buffer, buffer + **got);
    }
  }
  [[nodiscard]] const std::vector<std::byte>& heard() const { return heard_; }
  void hang_up() { fd_.reset(); }

  /// One step of a handshake as dialler; `limit` bytes at a time. True when it is over.
  bool shake(secure::Handshake& handshake, std::size_t limit = 1000) {
    const auto out = handshake.outgoing();
    const std::size_t count = std::min(limit, out.size());
    if (count > 0) handshake.sent(say(out.first(count)));
    std::byte buffer[secure::kLongestFrame];
    if (handshake.wanted() > 0) {
      auto got = os::receive_some(fd_.get(), std::span(buffer).first(handshake.wanted()));
      if (!got || !got->has_value()) return true;
      handshake.feed(std::span(buffer).first(**got));
    }
    return handshake.state() != secure::Handshake::State::running;
  }

 private:
  os::Fd fd_;
  std::vector<std::byte> heard_;
};

/// What rank 1 says first.
inline std::vector<std::byte> hello_to(const std::string& address, int size = 2,
                                       std::uint64_t job = 0x1234) {
  const secure::Party party{1, size, job, 1, secret_of("a secret for tests")};
  const auto handshake = secure::Handshake::dialler(party, 0, secure::Nonce{},
                                                    os::Address::parse_endpoint(address).value());
  return {handshake.outgoing().begin(), handshake.outgoing().end()};
}

}  // namespace tutti::transport::test
