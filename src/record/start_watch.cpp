#include "record/start_watch.hpp"

#include <exception>
#include <utility>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace tutti::record {

StartWatch::StartWatch(std::chrono::nanoseconds after, bool shown) noexcept
    : due_(base::deadline_after(since_, after > after.zero() ? after : base::kNoLimit)),
      shown_(shown) {}

void StartWatch::show(std::optional<int> rank, int size, const std::string& host) noexcept {
  if (!shown_) return;
  try {
    // A launcher may have been started by another one, whose memory is for the rank.
    if (rank) memory_ = handed_memory();
    if (!memory_ || memory_->header().pid.load() != 0 || !take_place(memory_->header().starting)) {
      memory_.reset();
      auto made = new_memory();
      if (!made || !take_place(made->header().starting)) return;
      memory_ = std::move(*made);
    }
  } catch (const std::exception&) {
    return;
  }
  Header& header = memory_->header();
  header.rank = rank.value_or(kLauncher);
  put(header.host, host);
  put(header.waits_for, "");
  header.first = header.last = clocks();
  header.size = size;  // without one nobody reads it
}

void StartWatch::waits_for(std::string_view what) noexcept {
  if (memory_) put(memory_->header().waits_for, what);
}

void StartWatch::log(std::string_view who, std::string_view why) {
  const auto waited = Clock::now() - since_;
  const auto seconds = base::seconds_text(waited);
  base::log(base::Level::warning,
            base::format("{} has waited for {}: {}. It goes on waiting; the next line in {}", who,
                         seconds, why, seconds));
  skip();
}

void StartWatch::skip() noexcept {
  const auto now = Clock::now();
  due_ = now + (now - since_);
}

void StartWatch::end() noexcept {
  if (memory_) memory_->header().starting.store(0);
  memory_.reset();
}

}  // namespace tutti::record
