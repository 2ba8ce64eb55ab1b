#include "models/machine.hpp"

#include <algorithm>
#include <cctype>

namespace tutti::models {

Machine* machine = nullptr;

Machine::Machine(const Make& make, Sites& sites, const Options& options)
    : make_(make), sites_(sites), options_(options), threads_(std::size_t(options.threads)) {}

Report Machine::explore() {
  do {
    execute();
  } while (report_.error.empty() && next_choices());
  report_.states = seen_.size();
  return std::move(report_);
}

bool Machine::next_choices() {
  while (!choices_.empty() && ++choices_.back().chosen == choices_.back().count)
    choices_.pop_back();
  known_ = choices_.size();
  return !choices_.empty();
}

void Machine::execute() {
  made_ = 0;
  given_up_ = false;
  graph_.clear(options_.threads);
  (void)graph_.add_location(0);  // location 0 orders the barriers of membarrier
  const std::unique_ptr<Program> program = make_();
  program_ = program.get();
  // Up to its first access, which concerns nobody else.
  for (int thread = 0; thread < options_.threads && !given_up_; ++thread) start(thread);
  while (!given_up_) {
    std::vector<int> ready;
    bool all_ended = true;
    for (int thread = 0; thread < options_.threads; ++thread) {
      const Thread& one = at(thread);
      all_ended &= one.ended;
      if (one.waits && may_see_more(one)) return;  // see await
      if (!one.ended && !one.waits && one.asleep_on < 0) ready.push_back(thread);
    }
    if (all_ended) {
      ++report_.executions;
      program->finish();
      return;
    }
    if (ready.empty()) return fail("threads wait or sleep for ever");
    resume(ready[choose(ready.size())]);
    if (made_ < known_ || given_up_) continue;
    std::uint64_t state = graph_.hash();
    for (const Thread& one : threads_) state = 31 * state + one.steps;
    if (!seen_.insert(state).second) return;
  }
}

void Machine::enter() noexcept {
  const int thread = machine->running_;
  machine->program_->run(thread);
  machine->at(thread).ended = true;
  _longjmp(machine->scheduler_, 1);
}

void Machine::start(int thread) {
  Thread& one = at(thread);
  one.ended = one.looking = one.waits = false;
  one.asleep_on = -1;
  one.steps = 0;
  getcontext(&one.context);
  one.context.uc_stack.ss_sp = one.stack.data();
  one.context.uc_stack.ss_size = one.stack.size();
  makecontext(&one.context, enter, 0);
  resume(thread);
}

void Machine::resume(int thread) {
  running_ = thread;
  ++at(thread).steps;
  if (_setjmp(scheduler_) == 0) {
    if (at(thread).steps == 1) setcontext(&at(thread).context);
    _longjmp(at(thread).place, 1);
  }
  running_ = -1;
}

// swapcontext would make a system call each time.
void Machine::step() {
  if (_setjmp(at(running_).place) == 0) _longjmp(scheduler_, 1);
}

void Machine::fail(const std::string& text) {
  if (!given_up_) {
    report_.error = text;
    report_.trace = trace();
  }
  given_up_ = true;
}

std::size_t Machine::choose(std::size_t count) {
  if (count <= 1) return 0;
  if (made_ == choices_.size()) choices_.push_back({0, count});
  return choices_[made_++].chosen;
}

void Machine::append(Event one, std::size_t place) {
  one.thread = one.thread < 0 ? running_ : one.thread;
  if (one.kind == Event::Kind::load) {
    const auto same = std::ranges::count_if(graph_.events(), [&](const Event& other) {
      return other.thread == running_ && other.site == one.site && other.reads == one.reads;
    });
    if (one.site >= 0 && same >= options_.most_repeats) {
      ++report_.cut;
      given_up_ = true;
    }
    if (at(running_).looking) at(running_).looked.emplace_back(one.location, one.reads);
  }
  graph_.append(one, place);
  if (made_ >= known_ && !graph_.is_consistent()) given_up_ = true;  // earlier ones have looked
}

void Machine::sleep(int kernel) {
  at(running_).asleep_on = kernel;
  step();
}

std::vector<int> Machine::sleepers(int kernel) const {
  std::vector<int> found;
  for (int thread = 0; thread < options_.threads; ++thread)
    if (at(thread).asleep_on == kernel) found.push_back(thread);
  return found;
}

bool Machine::may_see_more(const Thread& thread) const noexcept {
  return std::ranges::any_of(
      thread.looked, [&](const auto& one) { return graph_.newest(one.first) != one.second; });
}

/// A thread that has looked in vain would look again when there is more to see. Another execution,
/// in which it looks only then, shows the same. This one shows whether it waits for ever.
void Machine::await(const std::function<bool()>& look) {
  Thread& self = at(running_);
  self.looking = true;
  self.looked.clear();
  if (!look()) {
    self.waits = true;
    step();
  }
  self.looking = false;
}

int Machine::site_of(const char* what, Order& order, const At& at) {
  const auto is_here = [&](const Site& site) {
    return site.at.line() == at.line() && site.at.column() == at.column() &&
           std::string_view(site.at.file_name()) == at.file_name();
  };
  auto found = std::ranges::find_if(sites_, is_here);
  if (found == sites_.end()) {
    add_site(what, order, at);
    found = sites_.end() - 1;
  }
  const Weakening* const weak = options_.weakening;
  if (weak != nullptr && weak->site == found->name) order = weak->to;
  return int(found - sites_.begin());
}

void Machine::add_site(const char* what, Order order, const At& at) {
  // "void a::B<T>::unlock() [with ...]": the name before the first bracket.
  const std::string text = at.function_name();
  const std::size_t end = text.find('(');
  std::size_t begin = end;
  while (begin > 0 && (std::isalnum(text[begin - 1]) != 0 || text[begin - 1] == '_')) --begin;
  const std::string function = text.substr(begin, end - begin);
  for (int same = 1;; ++same) {  // several of them in the function are numbered
    const std::string number = same == 1 ? "" : std::to_string(same);
    const std::string name = function + " " + what + number + " " + name_of(order);
    const auto has_name = [&](const Site& site) { return site.name == name; };
    if (std::ranges::any_of(sites_, has_name)) continue;
    sites_.push_back({name, order, at});
    return;
  }
}

std::string Machine::trace() const {
  std::string text;
  for (const Event& one : graph_.events()) {
    if (one.thread < 0) continue;
    text += "  thread " + std::to_string(one.thread) + ": ";
    text += one.site >= 0 ? sites_[std::size_t(one.site)].name : "the kernel";
    if (!one.is_fence())
      text += ", word " + std::to_string(one.location) + ": " + std::to_string(one.value);
    text += "\n";
  }
  return text;
}

}  // namespace tutti::models
