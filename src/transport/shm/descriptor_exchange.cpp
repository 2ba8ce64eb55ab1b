#include "transport/shm/descriptor_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "os/socket.hpp"

namespace tutti::transport::shm {
namespace {

// A connection that is silent for longer is dropped: a rank sends as soon as it has connected.
constexpr auto kSilence = std::chrono::seconds(2);
constexpr std::size_t kPending = 64;
// The most connections that wait to be closed: each is an open descriptor.
constexpr std::size_t kMostClosing = 128;
// The pause after accept() had no free descriptor: the connection stays in the queue, so the
// listener stays readable.
constexpr auto kRest = std::chrono::milliseconds(20);
// A text follows its head at once.
constexpr auto kTextTime = std::chrono::seconds(1);

std::span<std::byte> bytes_of(DescriptorHeader& header) {
  return {reinterpret_cast<std::byte*>(&header), sizeof header};
}

}  // namespace

Result<DescriptorMessage> receive_message(int fd, std::chrono::steady_clock::time_point by) {
  DescriptorMessage message;
  Result<os::ReceivedFds> got = os::receive_fds(fd, bytes_of(message.header), by);
  if (!got) return got.status();
  const Outcome foreign(Errc::refused, "a message between ranks of one host is not understood");
  if (got->bytes != sizeof message.header || message.header.magic != kMagic ||
      message.header.text_bytes > kMostText)
    return foreign;
  message.fds = std::move(got->fds);
  message.text.resize(message.header.text_bytes);
  if (Outcome s = os::receive_all(fd, std::as_writable_bytes(std::span(message.text)),
                                  std::chrono::steady_clock::now() + kTextTime);
      !s.ok())
    return foreign;
  return message;
}

Outcome send_message(int fd, DescriptorHeader header, std::span<const int> fds,
                     std::string_view text, std::chrono::steady_clock::time_point by) {
  text = text.substr(0, kMostText);
  header.text_bytes = static_cast<std::uint32_t>(text.size());
  std::vector<std::byte> bytes(sizeof header + text.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!text.empty()) std::memcpy(bytes.data() + sizeof header, text.data(), text.size());
  return os::send_fds(fd, fds, bytes, by);
}

DescriptorExchange::DescriptorExchange(int listener, std::size_t most, Answer answer,
                                       os::BackgroundCloser& closer)
    : listener_(listener), most_(most + kPending), answer_(std::move(answer)), closer_(closer) {}

DescriptorExchange::~DescriptorExchange() {
  for (Silent& one : silent_) drop(std::move(one.connection));
}

void DescriptorExchange::drop(os::Fd connection) {
  std::byte any{};
  const Result<std::optional<std::size_t>> left = os::peek_some(connection.get(), {&any, 1});
  if (!left || left.value()) closer_.close(std::move(connection));
}

bool DescriptorExchange::is_full() const {
  return silent_.size() >= most_ || closer_.waiting() >= kMostClosing;
}

bool DescriptorExchange::accept_some() {
  if (Clock::now() < rests_until_) return false;
  for (std::size_t taken = 0; taken < most_ && !is_full(); ++taken) {
    Result<os::Fd> connection = os::accept_connection(listener_);
    trouble_ = connection ? Outcome() : connection.status();
    if (!connection) rests_until_ = Clock::now() + kRest;
    if (!connection || !connection->valid()) return false;
    if (os::is_of_this_user(connection->get()))
      silent_.push_back({std::move(*connection), Clock::now() + kSilence});
    else
      closer_.close(std::move(*connection));
  }
  return true;
}

void DescriptorExchange::answer_first_words() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < silent_.size();) {
    DescriptorHeader header;
    Result<std::optional<std::size_t>> got =
        os::peek_some(silent_[i].connection.get(), bytes_of(header));
    if (got && *got && **got == 0 && now < silent_[i].deadline) {
      ++i;
      continue;
    }
    os::Fd connection = std::move(silent_[i].connection);
    silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
    const bool whole = got && *got && **got == sizeof header;
    std::optional<DescriptorHeader> ours;
    if (whole && header.magic == kMagic && header.word == Word::hello) ours = answer_(header);
    const auto same_rank = [&](const Proven& other) { return other.rank == header.rank; };
    if (!ours || std::ranges::any_of(proven_, same_rank)) {
      drop(std::move(connection));
      continue;
    }
    (void)os::receive_some(connection.get(), bytes_of(header));
    os::take_descriptors(connection.get(), true);
    if (send_message(connection.get(), *ours, {}, {}, now).ok())
      proven_.push_back({std::move(connection), header.rank});
  }
}

Result<std::optional<DescriptorExchange::Message>> DescriptorExchange::first_message() {
  while (at_ < proven_.size()) {
    Result<DescriptorMessage> got = receive_message(proven_[at_].connection.get(), Clock::now());
    if (!got && got.status().code() == Errc::timeout) {
      ++at_;
      continue;
    }
    if (!got && got.status().code() == Errc::resource) return got.status();
    Proven one = std::move(proven_[at_]);
    proven_.erase(proven_.begin() + static_cast<std::ptrdiff_t>(at_));
    if (!got) continue;
    const Word word = got->header.word;
    if (word != Word::failed && (word != Word::descriptors || got->fds.size() != kDescriptors))
      continue;
    return std::optional(Message{std::move(one.connection), one.rank, std::move(*got)});
  }
  at_ = 0;
  return std::optional<Message>();
}

Result<std::optional<DescriptorExchange::Message>> DescriptorExchange::next() {
  // Bounded: a process that connects as fast as we look is not to keep the caller from its
  // deadline.
  for (std::size_t turn = 0; turn < most_; ++turn) {
    const bool full = accept_some();
    // Before silent connections are read: a rank may have hung up and connected again.
    Result<std::optional<Message>> one = first_message();
    if (!one || *one) return one;
    answer_first_words();
    if (!full) return one;
    // Not before they were read: the first of many that connect together may have sent its data.
    if (is_full() && !silent_.empty()) {
      closer_.close(std::move(silent_.front().connection));
      silent_.erase(silent_.begin());
    }
  }
  return std::optional<Message>();
}

void DescriptorExchange::tell(const DescriptorHeader& header, std::string_view text) {
  for (const Proven& one : proven_)
    (void)send_message(one.connection.get(), header, {}, text, Clock::now());
}

void DescriptorExchange::add_to(std::vector<pollfd>& watched) const {
  if (Clock::now() >= rests_until_ && !is_full()) watched.push_back({listener_, POLLIN, 0});
  for (const Silent& one : silent_) watched.push_back({one.connection.get(), POLLIN, 0});
  for (const Proven& one : proven_) watched.push_back({one.connection.get(), POLLIN, 0});
}

DescriptorExchange::Clock::time_point DescriptorExchange::wake_at(
    Clock::time_point deadline) const {
  if (!silent_.empty()) deadline = std::min(deadline, silent_.front().deadline);
  if (is_full()) deadline = std::min(deadline, Clock::now() + kRest);
  return Clock::now() < rests_until_ ? std::min(deadline, rests_until_) : deadline;
}

}  // namespace tutti::transport::shm
