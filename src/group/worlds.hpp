#pragma once

#include <optional>
#include <string_view>

#include <tutti/backend/registry.hpp>
#include <tutti/process_group.hpp>

#include "transport/first_lost.hpp"

// The one place that knows which backends there are and puts a world together.
namespace tutti::group {

/// The backend of this name: ours, a registered one, or a plug-in, which is loaded now.
[[nodiscard]] std::optional<BackendFactory> find_backend(std::string_view name);

/// Ok if a world can be made on the backend of this name here. Else invalid_argument, which tells
/// why not and which ones there are.
[[nodiscard]] Outcome check_backend(std::string_view name);

/// The same for the backend of a config, which must encrypt if the config asks for it.
[[nodiscard]] Outcome check_backend(const Config& config);

/// The reason alone, for a name that is not one for each device; empty: a world can be made.
[[nodiscard]] std::string why_missing(std::string_view name);

/// As WorldOptions::exchange, but with a name for each table of texts.
using NamedExchange = std::function<Result<std::vector<std::string>>(const std::string& name,
                                                                     const std::string& mine)>;

/// The world of this rank, on the backend that the options' config names; `exchange` stands in for
/// that of the options. All ranks must have chosen the same backend: else disagreement, on each.
/// `first_lost`: for our own backend, which asks it before it blames a rank; may be empty.
[[nodiscard]] Result<ProcessGroup> make_world(WorldOptions options, const NamedExchange& exchange,
                                              transport::FirstLost first_lost);

/// Worlds of this process that live, on whatever backend.
[[nodiscard]] int worlds_alive();

}  // namespace tutti::group
