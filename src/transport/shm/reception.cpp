#include "transport/shm/reception.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "os/socket.hpp"

namespace tutti::transport::shm {
namespace {

// Who hands in something says so with his first words, right after he has connected.
constexpr auto kSilence = std::chrono::seconds(2);
constexpr std::size_t kStrangers = 64;

}  // namespace

Reception::Reception(int listener, std::size_t most) noexcept
    : listener_(listener), most_(most + kStrangers) {}

Result<bool> Reception::accept_some() {
  while (silent_.size() < most_) {
    Result<os::Fd> connection = os::accept_connection(listener_);
    if (!connection) return connection.status();
    if (!connection->valid()) return false;
    silent_.push_back({std::move(*connection), Clock::now() + kSilence});
  }
  return true;
}

std::optional<Reception::HandIn> Reception::first_who_speaks() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < silent_.size();) {
    HandIn one;
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&one.hello), sizeof(Hello));
    Result<os::ReceivedFds> got = os::receive_fds(silent_[i].connection.get(), bytes, now);
    if (!got && got.status().code() == Errc::timeout && now < silent_[i].deadline) {
      ++i;
      continue;
    }
    one.connection = std::move(silent_[i].connection);
    silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!got || got->bytes != sizeof(Hello) || one.hello.magic != kMagic ||
        got->fds.size() != kDescriptors)
      continue;
    one.fds = std::move(got->fds);
    return one;
  }
  return std::nullopt;
}

Result<std::optional<Reception::HandIn>> Reception::next() {
  // Bounded: who connects as fast as we look is not to keep the caller from its deadline.
  for (std::size_t turn = 0; turn < most_; ++turn) {
    Result<bool> full = accept_some();
    if (!full) return full.status();
    std::optional<HandIn> one = first_who_speaks();
    if (one || !*full) return one;
    // Only now: of who came in one go with many, the first may have said all it has to say.
    if (silent_.size() == most_) silent_.erase(silent_.begin());
  }
  return std::optional<HandIn>();
}

void Reception::add_to(std::vector<pollfd>& watched) const {
  watched.push_back({listener_, POLLIN, 0});
  for (const Silent& one : silent_) watched.push_back({one.connection.get(), POLLIN, 0});
}

Reception::Clock::time_point Reception::wake_at(Clock::time_point deadline) const {
  return silent_.empty() ? deadline : std::min(deadline, silent_.front().deadline);
}

}  // namespace tutti::transport::shm
