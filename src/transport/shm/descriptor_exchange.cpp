#include "transport/shm/descriptor_exchange.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "os/socket.hpp"

namespace tutti::transport::shm {
namespace {

// A connection that is silent for longer is dropped: a rank sends as soon as it has connected.
constexpr auto kSilence = std::chrono::seconds(2);
constexpr std::size_t kPending = 64;
// The pause after accept() had no free descriptor: the connection stays in the queue, so the
// listener stays readable.
constexpr auto kRest = std::chrono::milliseconds(20);

}  // namespace

DescriptorExchange::DescriptorExchange(int listener, std::size_t most, const DescriptorHeader& ours,
                                       Knows knows)
    : listener_(listener), most_(most + kPending), ours_(ours), knows_(std::move(knows)) {}

bool DescriptorExchange::accept_some() {
  if (Clock::now() < rests_until_) return false;
  while (silent_.size() < most_) {
    Result<os::Fd> connection = os::accept_connection(listener_);
    trouble_ = connection ? Status() : connection.status();
    if (!connection) rests_until_ = Clock::now() + kRest;
    if (!connection || !connection->valid()) return false;
    silent_.push_back({std::move(*connection), Clock::now() + kSilence});
  }
  return true;
}

void DescriptorExchange::answer_first_words() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < silent_.size();) {
    Proven one;
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&one.header),
                                     sizeof(DescriptorHeader));
    Result<os::ReceivedFds> got = os::receive_fds(silent_[i].connection.get(), bytes, now);
    if (!got && got.status().code() == Errc::timeout && now < silent_[i].deadline) {
      ++i;
      continue;
    }
    one.connection = std::move(silent_[i].connection);
    silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
    const auto same_rank = [&](const Proven& other) {
      return other.header.rank == one.header.rank;
    };
    if (!got || got->bytes != sizeof(DescriptorHeader) || one.header.magic != kMagic ||
        !got->fds.empty() || !knows_(one.header) || std::ranges::any_of(proven_, same_rank))
      continue;
    const auto ours = std::as_bytes(std::span(&ours_, 1));
    if (os::send_fds(one.connection.get(), {}, ours, now).ok()) proven_.push_back(std::move(one));
  }
}

Result<std::optional<DescriptorExchange::HandIn>> DescriptorExchange::first_who_hands_in() {
  for (std::size_t i = 0; i < proven_.size();) {
    DescriptorHeader header;
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&header),
                                     sizeof(DescriptorHeader));
    Result<os::ReceivedFds> got = os::receive_fds(proven_[i].connection.get(), bytes, Clock::now());
    if (!got && got.status().code() == Errc::timeout) {
      ++i;
      continue;
    }
    HandIn one{std::move(proven_[i].connection), proven_[i].header, {}};
    proven_.erase(proven_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!got && got.status().code() == Errc::resource) return got.status();
    if (!got || got->bytes != sizeof(DescriptorHeader) || header.magic != kMagic ||
        got->fds.size() != kDescriptors)
      continue;
    one.fds = std::move(got->fds);
    return std::optional(std::move(one));
  }
  return std::optional<HandIn>();
}

Result<std::optional<DescriptorExchange::HandIn>> DescriptorExchange::next() {
  // Bounded: a process that connects as fast as we look is not to keep the caller from its
  // deadline.
  for (std::size_t turn = 0; turn < most_; ++turn) {
    const bool full = accept_some();
    // Before silent connections are read: a rank may have hung up and connected again.
    Result<std::optional<HandIn>> one = first_who_hands_in();
    if (!one || *one) return one;
    answer_first_words();
    if (!full) return one;
    // Not before they were read: the first of many that connect together may have sent its data.
    if (silent_.size() == most_) silent_.erase(silent_.begin());
  }
  return std::optional<HandIn>();
}

void DescriptorExchange::add_to(std::vector<pollfd>& watched) const {
  if (Clock::now() >= rests_until_) watched.push_back({listener_, POLLIN, 0});
  for (const Silent& one : silent_) watched.push_back({one.connection.get(), POLLIN, 0});
  for (const Proven& one : proven_) watched.push_back({one.connection.get(), POLLIN, 0});
}

DescriptorExchange::Clock::time_point DescriptorExchange::wake_at(
    Clock::time_point deadline) const {
  if (!silent_.empty()) deadline = std::min(deadline, silent_.front().deadline);
  return Clock::now() < rests_until_ ? std::min(deadline, rests_until_) : deadline;
}

}  // namespace tutti::transport::shm
