#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "job.hpp"
#include "report.hpp"

// A job and the other nodes.
namespace tutti::launcher {
namespace {

std::string with_space(const std::string& text) {
  return text.starts_with(' ') ? text : " " + text;
}

}  // namespace

Outcome Job::meet_nodes() {
  if (options_.nnodes == 1) return {};
  std::optional<int> number = options_.node_rank;
  if (options_.find_node_rank)
    number = rendezvous_.serving() ? std::optional<int>(0) : std::optional<int>();
  nodes_ = std::make_unique<Nodes>(options_, rendezvous_.store(), number, rendezvous_.why_serving(),
                                   [loop = events_.get()] { loop->wake(); });
  // No worker runs before the others can be told of its end. Ends with an answer of the store, its
  // time-out, or a signal.
  while (!nodes_->joined()) {
    if (stopping_) return {};
    if (const auto verdict = nodes_->verdict())
      return Outcome(Errc::store, "cannot join the job: " + verdict->text);
    if (Outcome status = events_->run_once(std::nullopt); !status) return status;
  }
  options_.node_rank = *nodes_->joined();
  return {};
}

Outcome Job::meet_nodes_again() {
  if (!nodes_) return {};
  nodes_->begin(start_.restart, rendezvous_.workers_port());
  // Node 0 comes when its own workers have ended.
  const auto most = options_.join_timeout + options_.grace;
  const auto deadline = Clock::now() + most;
  while (true) {
    if (auto verdict = nodes_->verdict(); verdict && verdict->final) {
      give_up_restart(std::move(*verdict));
      stopping_ = true;
    }
    if (stopping_) return {};
    if (nodes_->joined()) break;
    if (Clock::now() >= deadline) {
      return Outcome(
          Errc::timeout,
          fmt::format("node 0 has not sent the port of the workers' store within {} s; is it "
                      "stopped, or its --grace longer than ours?",
                      std::chrono::ceil<std::chrono::seconds>(most).count()));
    }
    if (Outcome status = events_->run_once(deadline); !status) return status;
  }
  rendezvous_.use_workers_port(nodes_->workers_port());
  return {};
}

void Job::note_verdict() {
  if (!nodes_) return;
  if (verdict_noted_) {
    // All would start again; one of them may go meanwhile.
    if (verdict_->success || verdict_->final) return;
    if (auto end = nodes_->end_of_job()) give_up_restart(std::move(*end));
    return;
  }
  verdict_ = nodes_->verdict();
  if (!verdict_) return;
  verdict_noted_ = true;
  if (verdict_->success || first_failed_ != nullptr || interrupted_by_ != 0) return;
  say(fmt::format("tuttirun: {} ends its workers:{}", node_name(), with_space(verdict_->text)));
  if (verdict_->signal != 0) return stop_ranks(verdict_->signal);
  stop(SIGTERM);
}

void Job::give_up_restart(Verdict verdict) {
  verdict_ = std::move(verdict);
  verdict_noted_ = true;
  if (interrupted_by_ != 0) return;
  say(fmt::format("tuttirun: {} does not start its workers again:{}", node_name(),
                  with_space(verdict_->text)));
}

std::string Job::node_name() const { return name_of_node(options_.node_rank); }

int Job::code_of_first_failure() {
  if (!earlier_) return first_failed_->end->shell_code();
  say(fmt::format("tuttirun: before that, on another node:{}", with_space(earlier_->text)));
  return earlier_->exit_code;
}

void Job::tell_interrupt() {
  if (!nodes_) return;
  reported_ = true;
  nodes_->report_signal(interrupted_by_, fmt::format("tuttirun on {} was ended by {}", node_name(),
                                                     describe({0, interrupted_by_})));
}

void Job::take_leave() {
  // Once more, as it may have come before the others could be told.
  if (interrupted_by_ != 0) return tell_interrupt();
  if (!verdict_ || verdict_->success || verdict_->final) return;
  nodes_->report_failure(
      verdict_->exit_code,
      fmt::format("{} does not start its workers again, as its --max-restarts is {}; give all "
                  "nodes the same",
                  node_name(), options_.max_restarts),
      true);
}

}  // namespace tutti::launcher
