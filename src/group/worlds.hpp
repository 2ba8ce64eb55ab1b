#pragma once

#include <optional>
#include <string_view>

#include <tutti/backend/registry.hpp>
#include <tutti/process_group.hpp>

#include "transport/first_lost.hpp"

// The one place that knows all backends and makes a world on one of them.
namespace tutti::group {

/// The backend of this name: a built-in one, a registered one, or a plug-in, which is loaded now.
[[nodiscard]] std::optional<BackendFactory> find_backend(std::string_view name);

/// Ok if this process can make a world on the backend of this name; else invalid_argument with the
/// reason and the backends that there are.
[[nodiscard]] Outcome check_backend(std::string_view name);

/// The same for the backend of a config, which must encrypt if the config asks for TLS.
[[nodiscard]] Outcome check_backend(const Config& config);

/// Only the reason, for a name without devices; empty: a world can be made.
[[nodiscard]] std::string why_missing(std::string_view name);

/// As WorldOptions::exchange, but with a name for each table of texts.
using NamedExchange = std::function<Result<std::vector<std::string>>(const std::string& name,
                                                                     const std::string& mine)>;

/// Makes the world of this rank on the backend that the config names; `exchange` replaces that of
/// the options. If the ranks have chosen different backends, every rank gets a disagreement.
/// `first_lost`: may be empty; the native backend asks it before it blames a rank.
[[nodiscard]] Result<ProcessGroup> make_world(WorldOptions options, const NamedExchange& exchange,
                                              transport::FirstLost first_lost);

/// The number of this process's worlds that are alive, on all backends.
[[nodiscard]] int worlds_alive();

}  // namespace tutti::group
