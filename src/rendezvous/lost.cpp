#include <charconv>
#include <string>

#include "rendezvous/rendezvous.hpp"

// The store sees every rank's end first-hand and in one order; ranks see only those they are
// connected with. So each rank leaves a will under one key, which is carried out for the first that
// is lost.
namespace tutti::rendezvous {
namespace {

constexpr std::string_view kLostKey = "lost";
// The store may not have seen yet what we have. Longer than it takes to wake, shorter than anybody
// waits for an error.
constexpr std::chrono::milliseconds kAskTime{50};

}  // namespace

bool leave_mark(Store& store, int rank) {
  try {
    return store.set_will(kLostKey, std::to_string(rank));
  } catch (const Error&) {
    return false;  // without it others know less, which is no reason to fail
  }
}

Status first_lost(Store& store, bool rank_0_serves) {
  try {
    const std::string text = store.get(kLostKey, kAskTime);
    int rank = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error != std::errc() || end != text.data() + text.size() || rank < 0) return {};
    return Status(Errc::peer_lost,
                  "its connection to the store ended without a good-bye before any other's")
        .with_culprit(rank);
  } catch (const Error& error) {
    if (!rank_0_serves || error.code() != Errc::store) return {};
    return Status(Errc::peer_lost, "the store that it serves is gone").with_culprit(0);
  }
}

}  // namespace tutti::rendezvous
