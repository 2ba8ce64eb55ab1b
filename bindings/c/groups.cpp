// <tutti/c.h>: groups.
#include <climits>
#include <vector>

#include "face.hpp"

using namespace tutti::c;  // NOLINT: the functions are C's

namespace {

/// Hands a group out: NULL where this rank is no member.
void give(tutti_group** group, tutti::ProcessGroup made) {
  if (made) *group = new tutti_group(std::move(made));
}

tutti::NewGroupOptions options_of_groups(tutti_group* parent) {
  (void)of(parent);
  return {.name = parent->name_of_groups, .timeout = parent->settings.timeout};
}

}  // namespace

int tutti_with(tutti_group* group, const tutti_options* given, tutti_group** handle) {
  return result_of([&] {
    at(handle, "handle") = nullptr;
    tutti::ProcessGroup& its = of(group);
    const tutti_options options = struct_of(given, "tutti_options");
    if (options.device_type != TUTTI_CPU && options.device_type != TUTTI_CUDA)
      refuse("device_type " + std::to_string(options.device_type) +
             " is none of tutti_device_type");
    const bool on_cpu = options.device_type == TUTTI_CPU;
    if (options.device < 0 || options.device > (on_cpu ? 0 : SHRT_MAX))
      refuse("there is no device " + std::to_string(options.device) +
             (on_cpu ? " of TUTTI_CPU: it is device 0" : " of TUTTI_CUDA: GPUs count from 0"));
    if (on_cpu && options.stream != nullptr)
      refuse("stream is given, but device_type is TUTTI_CPU, which has no stream");
    tutti::c::Settings settings{.timeout = timeout_of(options.timeout)};
    settings.device = {static_cast<tutti::DeviceType>(options.device_type),
                       static_cast<std::int16_t>(options.device)};
    if (!on_cpu) settings.stream = reinterpret_cast<std::uintptr_t>(options.stream);
    auto made = std::make_unique<tutti_group>(its, settings);
    if (options.name != nullptr) made->name_of_groups = options.name;
    *handle = made.release();
  });
}

int tutti_new_group(tutti_group* parent, const int* ranks, int count, tutti_group** group) {
  return result_of([&] {
    at(group, "group") = nullptr;
    give(group, of(parent).new_group(list_of(ranks, count, "ranks"), options_of_groups(parent)));
  });
}

int tutti_split(tutti_group* parent, int color, int key, tutti_group** group) {
  return result_of([&] {
    at(group, "group") = nullptr;
    std::optional<int> its;
    if (color != TUTTI_NO_COLOR) its = color;
    give(group, of(parent).split(its, key, options_of_groups(parent)));
  });
}

int tutti_new_subgroups(tutti_group* parent, int group_size, tutti_group** group) {
  return result_of([&] {
    at(group, "group") = nullptr;
    give(group, of(parent).new_subgroups(group_size, options_of_groups(parent)));
  });
}

void tutti_free(tutti_group* group) { delete group; }
int tutti_rank(const tutti_group* group) { return group == nullptr ? -1 : group->group.rank(); }
int tutti_size(const tutti_group* group) { return group == nullptr ? -1 : group->group.size(); }
const char* tutti_name(const tutti_group* group) {
  return group == nullptr ? "" : group->name.c_str();
}
const char* tutti_backend(const tutti_group* group) {
  return group == nullptr ? "" : group->backend.c_str();
}

int tutti_global_rank(const tutti_group* group, int rank, int* global) {
  return result_of([&] { at(global, "global") = of(group).global_rank(rank); });
}

int tutti_group_rank(const tutti_group* group, int global, int* rank) {
  return result_of([&] { at(rank, "rank") = of(group).group_rank(global).value_or(-1); });
}

int tutti_timeout(const tutti_group* group, double* seconds) {
  return result_of([&] {
    const tutti::c::Settings& settings = at(group, "the group").settings;
    const auto timeout = settings.timeout ? *settings.timeout : of(group).get_timeout();
    at(seconds, "seconds") = std::chrono::duration<double>(timeout).count();
  });
}

int tutti_set_timeout(tutti_group* group, double seconds) {
  return result_of([&] {
    tutti::Timeout& its = at(group, "the group").settings.timeout;
    const auto timeout = positive_timeout_of(seconds);
    if (its)
      its = timeout;
    else
      of(group).set_timeout(timeout);
  });
}

int tutti_authenticated(const tutti_group* group) {
  return group != nullptr && group->group.authenticated() ? 1 : 0;
}

int tutti_abort(tutti_group* group, const char* reason) {
  return result_of([&] { of(group).abort(reason == nullptr ? "tutti_abort was called" : reason); });
}

int tutti_health(const tutti_group* group) {
  return result_of([&] { tutti::raise_if(of(group).health()); });
}

int tutti_monitored_barrier(tutti_group* group, int wait_all_ranks) {
  return result_of([&] {
    of(group).monitored_barrier(
        {.timeout = group->settings.timeout, .wait_all_ranks = wait_all_ranks != 0});
  });
}
