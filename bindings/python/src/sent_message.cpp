#include "sent_message.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include <nanobind/nanobind.h>

#include "gil.hpp"
#include "kept.hpp"
#include "shown.hpp"
#include "work.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

// A message whose receiver has it may not have been acknowledged yet.
constexpr auto kGrace = std::chrono::milliseconds(200);
constexpr std::size_t kMostTold = 3;

struct Messages {
  std::map<std::uint64_t, SentMessage*> under_way;  // in the order of their starts
  std::uint64_t started = 0;
  std::vector<std::string> failed;  // the first ones, whose Work was dropped
  std::size_t failures = 0;
};
nb::ft_mutex messages_mutex;

// Called with messages_mutex. Never destroyed: a Work may be freed when statics are gone.
Messages& messages() {
  static Messages* all = nullptr;
  if (all == nullptr) [[unlikely]] {
    all = new Messages;
    // A forked child has none of its parent's. To ask for the process number at each message would
    // be a system call.
    pthread_atfork(nullptr, nullptr, [] {
      const std::uint64_t started = all->started;  // theirs stay unknown numbers
      all = new Messages;
      all->started = started;
    });
  }
  return *all;
}

void write_line(const std::string& line) {
  PySys_FormatStderr("tutti: %U\n", shown_object(line).ptr());
}

}  // namespace

SentMessage::SentMessage(const ProcessGroup& group, const TensorView& view, int dst, int tag)
    : group_(group.name()),
      dtype_(view.dtype()),
      count_(view.count()),
      rank_(group.rank()),
      dst_(dst),
      tag_(tag) {
  const nb::ft_lock_guard lock(messages_mutex);
  Messages& all = messages();
  number_ = ++all.started;
  all.under_way.emplace(number_, this);
}

void SentMessage::note_told() noexcept {
  const nb::ft_lock_guard lock(messages_mutex);
  messages().under_way.erase(number_);
}

SentMessage::~SentMessage() {
  const nb::ft_lock_guard lock(messages_mutex);
  Messages& all = messages();
  if (all.under_way.erase(number_) == 0 || failure_.empty()) return;
  ++all.failures;
  if (all.failed.size() < kMostTold) all.failed.push_back(text());
}

std::string SentMessage::text() const {
  const std::string peer = std::to_string(dst_);
  const std::string which = "isend(to " + peer + ", tag " + std::to_string(tag_) + ", " +
                            std::string(to_string(dtype_)) + " x " + std::to_string(count_) +
                            ") of rank " + std::to_string(rank_) + " in group '" + group_ + "' ";
  if (!failure_.empty()) return which + "failed, and nobody waited for it: " + failure_;
  return which +
         "was not received before the end of this process; wait for the Work of each isend, and "
         "look where rank " +
         peer + " receives it";
}

void SentMessage::tell_at_exit() noexcept {
  const auto end = std::chrono::steady_clock::now() + kGrace;
  const auto listed = [] {
    const nb::ft_lock_guard lock(messages_mutex);
    std::vector<SentMessage*> all;
    for (const auto& [_, one] : messages().under_way) all.push_back(one);
    return all;
  };
  while (true) {
    Kept::release_done();
    std::vector<nb::object> works;  // what is polled may drop others
    for (const SentMessage* const one : listed())
      if (one->work_ != nullptr) works.push_back(nb::find(*one->work_));
    for (const nb::object& work : works) {
      try {
        if (work.is_valid()) (void)nb::cast<RunningWork&>(work).is_completed();
      } catch (const std::exception&) {
        PyErr_Clear();
      }
    }
    works.clear();
    const bool waits =
        std::ranges::any_of(listed(), [](const SentMessage* one) { return one->failure_.empty(); });
    if (!waits || std::chrono::steady_clock::now() >= end) break;
    const WithoutGil unlocked;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const nb::ft_lock_guard lock(messages_mutex);
  const Messages& all = messages();
  std::vector<std::string> lines;
  for (const auto& [_, one] : all.under_way) lines.push_back(one->text());
  lines.insert(lines.end(), all.failed.begin(), all.failed.end());
  const std::size_t count = all.under_way.size() + all.failures;
  for (std::size_t i = 0; i < lines.size() && i < kMostTold; ++i) write_line(lines[i]);
  if (count > kMostTold) write_line("and " + std::to_string(count - kMostTold) + " more");
}

}  // namespace tutti::python
