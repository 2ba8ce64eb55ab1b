#include <unistd.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.hpp"
#include "rendezvous/rendezvous.hpp"
#include "store/tcp_client.hpp"

// The store sees the end of every rank itself and in one order; a rank sees only those that it is
// connected with. So each rank sets two wills. One is under a key that all ranks use: it is
// executed for the rank that is lost first. The other is under a key of its own: it shows that a
// rank that was lost later has not left gracefully. A rank that leaves gracefully sets a third key:
// a rank with neither key of its own still runs, whatever the network lets through.
namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kLostKey = "lost";
constexpr std::string_view kLeftKey = "left";
// How long the store waits for the record of a loss, because it may see the loss later than we do.
// Long enough to wake up, too short to delay an error.
constexpr milliseconds kStoreWaits{50};
// How long we wait for the answer of the store. A store on a busy machine is in time, a stopped one
// is not.
constexpr milliseconds kAskTime{1000};
constexpr std::string_view kRegisteredKey = "registered";
constexpr milliseconds kWithdrawTime{250};

std::string key_of(std::string_view kind, int rank) {
  return std::string(kind) + "/" + std::to_string(rank);
}

/// Up to three questions to the store, one after the other: which rank was lost first, whether the
/// unreachable one was lost, and whether it has left. No thread waits for the answer.
class AskedStore {
 public:
  AskedStore(const Rendezvous& rendezvous, int unreachable)
      : client_(rendezvous.client),
        part_(rendezvous.part),
        key_(part_ + std::string(kLostKey)),
        unreachable_(unreachable),
        where_(rendezvous.store->describe()),
        rank_0_serves_(rendezvous.rank_0_serves),
        until_(Clock::now() + kAskTime) {
    (void)look();
  }
  ~AskedStore() {
    if (id_) client_->forget(*id_);
  }
  AskedStore(const AskedStore&) = delete;
  AskedStore& operator=(const AskedStore&) = delete;

  std::optional<Outcome> look() {
    if (answer_) return answer_;
    if (!id_) {
      store::Request request;
      request.op = store::Op::get;
      request.timeout_ms = static_cast<std::uint32_t>(kStoreWaits.count());
      request.keys = {key_};
      id_ = client_->post(request);
    }
    const std::optional<store::Response> response =
        id_ ? client_->answer_to(*id_) : std::optional<store::Response>();
    if (response) {
      id_.reset();
      switch (asked_) {
        case Asked::first: read_first(*response); break;
        case Asked::lost: read_second(*response); break;
        case Asked::left: answer_ = read_third(*response); break;
      }
      if (!answer_) return look();  // the next question
    } else if (client_->broken()) {
      answer_ = first_ ? *first_ : read_end();
    } else if (Clock::now() >= until_) {
      answer_ = first_ ? *first_ : Outcome(Errc::timeout, "the store does not answer");
    }
    return answer_;
  }

 private:
  enum class Asked : std::uint8_t { first, lost, left };

  void ask(Asked next, std::string_view kind) {
    asked_ = next;
    key_ = part_ + key_of(kind, unreachable_);
  }
  void read_first(const store::Response& response) {
    Outcome first = read(response);
    const bool lost = first.code() == Errc::peer_lost;
    if ((!first.ok() && !lost) || first.culprit() == unreachable_ || client_->broken()) {
      answer_ = std::move(first);
      return;
    }
    if (lost) first_ = std::move(first);
    ask(lost ? Asked::lost : Asked::left, lost ? kLostKey : kLeftKey);
  }
  void read_second(const store::Response& response) {
    if (response.code == Errc::timeout)
      ask(Asked::left, kLeftKey);
    else
      answer_ = first_;
  }
  [[nodiscard]] Outcome read_third(const store::Response& response) const {
    const bool left = response.code == Errc::ok;
    if (first_ && left)
      return Outcome(Errc::peer_left, std::string(first_->message()))
          .with_culprit(first_->culprit().value_or(-1));
    if (first_ || left) return first_.value_or(Outcome());
    if (response.code != Errc::timeout) return read_end();
    return Outcome(Errc::refused, where_ +
                                      " was reached, and for it that rank still runs: does a "
                                      "firewall let only some ports through?");
  }
  [[nodiscard]] Outcome read(const store::Response& response) const {
    if (response.code == Errc::timeout) return {};  // nobody
    if (response.code != Errc::ok || response.values.size() != 1) return read_end();
    const int rank = base::whole_number(response.values.front()).value_or(-1);
    if (rank < 0) return Outcome(Errc::store, "foreign data stands in the store");
    return Outcome(Errc::peer_lost,
                   "its connection to the store ended unexpectedly, before any other's")
        .with_culprit(rank);
  }
  /// The store is gone. If rank 0 served it and announced a graceful shutdown, it was not lost.
  [[nodiscard]] Outcome read_end() const {
    if (!rank_0_serves_ || !client_->broken() || client_->server_left())
      return Outcome(Errc::store, "the store is gone");
    return Outcome(Errc::peer_lost, "the store that it serves is gone").with_culprit(0);
  }

  std::shared_ptr<store::TcpClient> client_;
  std::string part_;
  std::string key_;  ///< what is asked for now
  int unreachable_;
  std::string where_;
  Asked asked_ = Asked::first;
  bool rank_0_serves_;
  Clock::time_point until_;
  std::optional<std::uint64_t> id_;
  std::optional<Outcome> first_;  ///< the rank that was lost first
  std::optional<Outcome> answer_;
};

}  // namespace

bool LivenessRecord::publish() {
  if (!rendezvous_.client) return false;
  process_ = ::getpid();
  published_ = true;
  try {
    const std::string rank = std::to_string(rendezvous_.identity.rank);
    if (!rendezvous_.store->set_will(kLostKey, rank) ||
        !rendezvous_.store->set_will(key_of(kLostKey, rendezvous_.identity.rank), rank))
      return false;
    // In a store of our own all ranks have a record, or none could join.
    if (rendezvous_.given)
      rendezvous_.store->add(kRegisteredKey, 1);
    else
      all_registered_ = true;
    return true;
  } catch (const Error&) {
    return false;  // the others then know less, which is no reason to fail
  }
}

void LivenessRecord::look_for_all() {
  if (all_registered_ || !published_) return;
  try {
    all_registered_ = rendezvous_.store->add(kRegisteredKey, 0) == rendezvous_.identity.size;
  } catch (const Error&) {
    // As above.
  }
}

void LivenessRecord::withdraw() noexcept {
  // A forked child has published nothing.
  if (!published_.exchange(false) || process_ != ::getpid()) return;
  try {
    store::Request left;
    left.op = store::Op::set;
    left.keys = {rendezvous_.part + key_of(kLeftKey, rendezvous_.identity.rank)};
    left.values = {std::string("1")};
    if (const auto id = rendezvous_.client->post(left)) rendezvous_.client->forget(*id);
    if (!rendezvous_.given) return;  // leaving a store of our own drops the wills
    rendezvous_.store->drop_will(key_of(kLostKey, rendezvous_.identity.rank), kWithdrawTime);
    rendezvous_.store->drop_will(kLostKey, kWithdrawTime);
  } catch (const std::exception&) {
    // Its server is gone, or stands still.
  }
}

std::function<std::optional<Outcome>()> ask_first_lost(const Rendezvous& rendezvous,
                                                       int unreachable) {
  auto asked = std::make_shared<AskedStore>(rendezvous, unreachable);
  return [asked = std::move(asked)] { return asked->look(); };
}

}  // namespace tutti::rendezvous
