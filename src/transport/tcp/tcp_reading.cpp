#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "transport/tcp/tcp_transport.hpp"

// Reads frames of open connections, and drops a connection whose frames are wrong.
namespace tutti::transport {
namespace {

// The most bytes of one connection in one poll, so that a driver can give way.
constexpr std::size_t kReadPerPoll = 256 * 1024;
// If at least this much of a payload is missing, it is read directly into the sink's memory. No
// more than the next head is read with it, because bytes beyond that head would have to be copied.
constexpr std::size_t kReadDirect = 16 * 1024;

}  // namespace

bool TcpTransport::read(Connection& from) noexcept {
  if (closing_) return read_and_forget(from);
  if (sink_ == nullptr) return false;
  bool moved = false;
  for (std::size_t done = 0; done < kReadPerPoll && from.link == Connection::Link::open;) {
    const std::span<std::byte> awaited = from.reader.awaited();
    const std::size_t ahead = awaited.size() >= kReadDirect ? sizeof(FrameHeader) : scratch_.size();
    std::array<iovec, 2> pieces{iovec{awaited.data(), awaited.size()},
                                iovec{scratch_.data(), ahead}};
    const secure::Moved got =
        from.stream.read(awaited.empty() ? std::span(pieces).subspan(1) : std::span(pieces));
    if (got.bytes == 0) {
      if (!got.ended && got.error == 0) break;
      ended(from, got.error);
      return true;
    }
    moved = true;
    done += got.bytes;
    const std::size_t direct = std::min(got.bytes, awaited.size());
    auto outcome = FrameReader::Verdict::ok;
    if (direct > 0) outcome = from.reader.filled(direct, *sink_);
    if (outcome == FrameReader::Verdict::ok && got.bytes > direct)
      outcome = from.reader.feed(std::span(scratch_).first(got.bytes - direct), *sink_);
    if (outcome != FrameReader::Verdict::ok) {
      judge(from, outcome);
      return true;
    }
    if (got.bytes < awaited.size() + ahead) break;  // the socket is empty now
  }
  if (moved) {
    note_used(from);
    note_unread(from);
  }
  return moved;
}

void TcpTransport::note_unread(Connection& from) noexcept {
  if (from.unread || !from.stream.may_have_unread()) return;
  from.unread = true;
  unread_.push_back(from.peer);
}

bool TcpTransport::read_unread() noexcept {
  bool moved = false;
  std::swap(unread_, rereading_);
  for (const int peer : rereading_) {
    Connection& from = *connections_[static_cast<std::size_t>(peer)];
    from.unread = false;
    if (from.link == Connection::Link::open) moved |= read(from);
  }
  rereading_.clear();
  return moved;
}

void TcpTransport::judge(Connection& from, FrameReader::Verdict outcome) noexcept {
  Outcome why = outcome == FrameReader::Verdict::left ? left_ : no_memory_;
  try {
    why = reason_of(from, outcome);
  } catch (const std::bad_alloc&) {
  }
  lose(from, std::move(why));
}

/// The error for a frame that is not ok.
Outcome TcpTransport::reason_of(const Connection& from, FrameReader::Verdict outcome) const {
  const FrameHeader& header = from.reader.header();
  switch (outcome) {
    case FrameReader::Verdict::ok: break;
    case FrameReader::Verdict::left:
      return Outcome(Errc::peer_left, base::format("{} has left", who(from.peer)));
    case FrameReader::Verdict::oversized:
      return Outcome(Errc::refused,
                     base::format("{} announced {} bytes in one frame, at most {} are "
                                  "allowed: its connection is dropped; does it run another "
                                  "version of tutti?",
                                  who(from.peer), header.payload_bytes, kMaxFramePayload));
    case FrameReader::Verdict::malformed:
      return Outcome(Errc::refused,
                     base::format("{} sent a frame of the unknown type {}: its connection "
                                  "is dropped; does it run another version of tutti?",
                                  who(from.peer), header.type));
    case FrameReader::Verdict::refused:
      return Outcome(Errc::refused,
                     base::format("{} sent a frame that fits nothing, or one too many (type {}, "
                                  "group {:016x}, operation {}): its connection is dropped",
                                  who(from.peer), header.type, header.group, header.seq));
  }
  return {};
}

bool TcpTransport::read_and_forget(Connection& from) noexcept {
  bool moved = false;
  for (std::size_t done = 0; done < kReadPerPoll && from.link == Connection::Link::open;) {
    iovec piece{scratch_.data(), scratch_.size()};
    const secure::Moved got = from.stream.read(std::span(&piece, 1));
    if (got.ended || got.error != 0) {
      lose(from, Outcome());
      return true;
    }
    if (got.bytes == 0) break;
    moved = true;
    done += got.bytes;
  }
  return moved;
}

}  // namespace tutti::transport
