#include "verdict.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"

namespace tutti::launcher {
namespace {

constexpr std::string_view kFinal = "final ";

}  // namespace

std::string key_of(int start, std::string_view what) {
  return start == 0 ? base::format("tuttirun{}", what) : base::format("tuttirun/{}{}", start, what);
}

std::string name_of_node(int number) {
  return base::format("node {} ({})", number, os::host_name());
}

std::string message_of(int exit_code, std::string_view text, bool final) {
  return base::format("{}{} {}", final ? kFinal : "", exit_code, text);
}

Verdict Verdict::parse(std::string_view text) {
  Verdict verdict;
  if (text == kDone) {
    verdict.success = true;
    return verdict;
  }
  if (text.starts_with(kFinal)) {
    verdict.final = true;
    text.remove_prefix(kFinal.size());
  }
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), verdict.exit_code);
  if (error != std::errc() || verdict.exit_code < 1 || verdict.exit_code > 255)
    verdict.exit_code = 1;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  if (rest.starts_with(kBySignal)) {
    rest.remove_prefix(kBySignal.size());
    const int signal = verdict.exit_code - 128;
    verdict.signal = signal > 0 && signal < NSIG ? signal : SIGTERM;
  }
  // Any process that reaches the store may have written it, and it is printed.
  verdict.text = base::shown_on_line(rest, kMostText);
  return verdict;
}

void set_wills(TcpStore& store, int number, int start) {
  const std::string will = message_of(1,
                                      "tuttirun on " + name_of_node(number) +
                                          " has ended unexpectedly: it was killed, its host is "
                                          "gone, or the network to it is cut",
                                      true);
  // Before this start can have been judged: the next one's, too, or a launcher that is killed
  // between a failure and the restart would be missed by nobody.
  if (start == 0) store.set_will(key_of(start, kVerdictKey), will);
  store.set_will(key_of(start + 1, kVerdictKey), will);
  store.set_will(key_of(start + 1, kPortKey), kNoPort);
  if (start > 0) store.drop_will(key_of(start - 1, kVerdictKey));
}

void drop_wills(TcpStore& store, int start) {
  for (const std::string& key :
       {key_of(start, kVerdictKey), key_of(start + 1, kVerdictKey), key_of(start + 1, kPortKey)})
    store.drop_will(key);
}

std::string put_end(TcpStore& store, const std::string& message, int start, int last) {
  std::string first;
  for (int at = start; at <= last; ++at) {
    const std::string stands =
        store.compare_set(key_of(at, kVerdictKey), "", message, kReportTimeout);
    if (at == start) first = stands;
    // Another node, as this one, may still wait for the port of the present start.
    if (at > 0) store.compare_set(key_of(at, kPortKey), "", kNoPort, kReportTimeout);
    if (Verdict::parse(stands).ends_job()) break;
  }
  return first;
}

}  // namespace tutti::launcher
