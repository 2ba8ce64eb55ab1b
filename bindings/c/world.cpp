// <tutti/c.h>: errors, the world, backends and the log.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/version.hpp>

#include "face.hpp"

namespace tutti::c {
namespace {

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(same(TUTTI_INVALID_ARGUMENT, Errc::invalid_argument) &&
              same(TUTTI_TIMEOUT, Errc::timeout) && same(TUTTI_STORE, Errc::store) &&
              same(TUTTI_ABORTED, Errc::aborted) && same(TUTTI_INTERNAL, Errc::internal) &&
              same(TUTTI_NO_QUORUM, Errc::no_quorum));
static_assert(same(TUTTI_BOOL, DType::bool_) && same(TUTTI_INT64, DType::int64) &&
              same(TUTTI_FLOAT64, DType::float64) && same(TUTTI_COMPLEX128, DType::complex128) &&
              TUTTI_COMPLEX128 + 1 == kDTypeCount);
static_assert(same(TUTTI_SUM, ReduceOp::sum) && same(TUTTI_MAX, ReduceOp::max) &&
              same(TUTTI_BXOR, ReduceOp::bxor));
static_assert(int{TUTTI_ANY_SOURCE} == any_source && int{TUTTI_ANY_TAG} == any_tag &&
              int{TUTTI_NO_RANK} == no_rank);
static_assert(same(TUTTI_CPU, DeviceType::cpu) && same(TUTTI_CUDA, DeviceType::cuda));
static_assert(same(TUTTI_LOG_DEBUG, LogLevel::debug) && same(TUTTI_LOG_OFF, LogLevel::off));

constexpr double kCentury = 100.0 * 366 * 86400;

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

/// The settings of the environment, and before them those of a list of "NAME=value".
Config config_of(const char* const* list) {
  struct Setting {
    std::string value;
    bool known = false;
  };
  std::map<std::string, Setting, std::less<>> given;
  for (; *list != nullptr; ++list) {
    const std::string_view setting(*list);
    const std::size_t end = setting.find('=');
    if (end == std::string_view::npos)
      refuse("config: \"" + std::string(setting) + "\" is not of the form NAME=value");
    given[std::string(setting.substr(0, end))] = {std::string(setting.substr(end + 1))};
  }
  Result<Config> config = Config::from_environment([&](const char* name) -> const char* {
    const auto found = given.find(name);
    if (found == given.end()) return std::getenv(name);
    found->second.known = true;
    return found->second.value.c_str();
  });
  raise_if(config.status());
  for (const auto& [name, setting] : given)
    if (!setting.known)
      refuse("config: there is no setting " + name + "; docs/reference/configuration.md has all");
  return config.value();
}

thread_local std::string why_not;

}  // namespace

thread_local LastError last_error;

int failed(Errc code, std::string text, std::optional<int> rank) noexcept {
  last_error = {std::move(text), rank.value_or(-1)};
  return static_cast<int>(code);
}

int failed_by_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return failed(error.code(), error.what(), error.culprit());
  } catch (const std::bad_alloc&) {
    return failed(Errc::resource, "no memory");
  } catch (const std::exception& error) {
    return failed(Errc::internal, error.what());
  } catch (...) {
    return failed(Errc::internal, "an unknown exception");
  }
}

void refuse(std::string text) {
  throw InvalidArgument(Outcome(Errc::invalid_argument, std::move(text)));
}

void refuse_dtype(int dtype) {
  refuse("dtype " + std::to_string(dtype) + " is none of tutti_dtype");
}

void refuse_size(std::size_t count, std::size_t blocks) {
  refuse("a buffer of " + std::to_string(count) + " elements for each of " +
         std::to_string(blocks) + " ranks is larger than memory can be");
}

std::optional<std::chrono::nanoseconds> timeout_of(double seconds) {
  if (seconds == 0) return std::nullopt;
  return positive_timeout_of(seconds);
}

std::chrono::nanoseconds positive_timeout_of(double seconds) {
  if (seconds == std::numeric_limits<double>::infinity()) seconds = kCentury;
  if (!(seconds > 0) || seconds > kCentury)
    refuse("a timeout is a number of seconds above 0, at most a century");
  return nanoseconds_of(seconds);
}

std::chrono::nanoseconds limit_of(double seconds) {
  if (!(seconds >= 0)) refuse("a limit is a number of seconds, not a negative one");
  return nanoseconds_of(seconds < kCentury ? seconds : kCentury);
}

}  // namespace tutti::c

using namespace tutti::c;  // NOLINT: the functions are C's

const char* tutti_version() { return tutti::kVersion.data(); }
const char* tutti_error_text() { return last_error.text.c_str(); }
int tutti_error_rank() { return last_error.rank; }

int tutti_init(const char* init_method, int rank, int size, double timeout, tutti_group** world) {
  return tutti_init_with(init_method, rank, size, timeout, nullptr, world);
}

int tutti_init_with(const char* init_method, int rank, int size, double timeout,
                    const tutti_init_options* given, tutti_group** world) {
  return result_of([&] {
    at(world, "world") = nullptr;
    const tutti_init_options with = struct_of(given, "tutti_init_options");
    tutti::InitOptions options;
    if (init_method != nullptr) options.init_method = init_method;
    if (rank != -1) options.rank = rank;
    if (size != -1) options.size = size;
    options.timeout = timeout_of(timeout);
    if (with.backend != nullptr) options.backend = with.backend;
    if (with.config != nullptr) options.config = config_of(with.config);
    if (with.store != nullptr) options.store = with.store->store;
    if (with.job_name != nullptr) options.job_name = with.job_name;
    if (with.secret == nullptr && with.secret_size > 0)
      refuse("tutti_init_options.secret is NULL, but secret_size is " +
             std::to_string(with.secret_size));
    if (with.secret != nullptr)
      options.secret.emplace(
          std::span(static_cast<const std::byte*>(with.secret), with.secret_size));
    options.or_alone = with.or_alone != 0;
    *world = new tutti_group(tutti::init_process_group(options));
  });
}

int tutti_is_initialized() { return tutti::is_initialized() ? 1 : 0; }

const char* tutti_why_unavailable(const char* backend) {
  const int result =
      result_of([&] { why_not = tutti::why_unavailable(std::string(&at(backend, "backend"))); });
  return result == TUTTI_OK ? why_not.c_str() : tutti_error_text();
}

int tutti_set_log_sink(tutti_log_sink sink, void* context, int least) {
  return result_of([&] {
    if (least < TUTTI_LOG_DEBUG || least > TUTTI_LOG_OFF)
      refuse("level " + std::to_string(least) + " is none of tutti_log_level");
    tutti::LogSink called;
    if (sink != nullptr)
      called = [sink, context](tutti::LogLevel level, std::string_view line) {
        sink(context, static_cast<int>(level), std::string(line).c_str());
      };
    tutti::set_log_sink(std::move(called), static_cast<tutti::LogLevel>(least));
  });
}
