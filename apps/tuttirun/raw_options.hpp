#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "options.hpp"

namespace tutti::launcher {

/// The options that are read as texts first: they mean something only together with others.
struct RawOptions {
  std::string nproc = "1";
  std::string nnodes = "1";
  std::string node_rank = "0";
  std::string master_port;
  bool standalone = false;
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_conf;
  bool tls = false;
  bool own_store = false;

  std::string max_restarts = "0";
  std::string on_loss = "end";
  std::string monitor_interval;
  std::string start_method = "spawn";
  double grace = 5;
  double grace_on_signal = 30;
  double shutdown_timeout = -1;
  std::string signals_to_handle;

  std::string input;
  bool tag = false;
  bool no_tag = false;
  std::string redirects = "0";
  std::string tee = "0";
  std::string shown;

  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool pass_local_rank = false;
  bool use_env = false;
};

/// Tells `app` of all options, each in torchrun's two spellings (--node-rank, --node_rank).
void declare_options(CLI::App& app, RawOptions& raw, Options& options);

/// A word for an option that is not known: the nearest one, or where to look.
std::string advice_for(const CLI::App& app, const std::string& unknown);

}  // namespace tutti::launcher
