#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tutti::launcher {

/// The options as texts, before anybody has looked whether they make sense together.
struct RawOptions {
  std::string nproc = "1";
  std::string nnodes = "1";
  std::string backend;
  std::string node_rank = "0";
  std::string master_addr = "127.0.0.1";
  std::string master_port;
  std::string local_addr;
  bool standalone = false;
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id;
  std::string rdzv_conf;
  std::string secret_file;
  bool tls = false;
  bool own_store = false;

  std::string max_restarts = "0";
  std::string monitor_interval;
  std::string start_method = "spawn";
  double grace = 5;
  double grace_on_signal = 30;
  double shutdown_timeout = -1;
  std::string signals_to_handle;
  std::string role = "default";

  std::string input;
  bool tag = false;
  bool no_tag = false;
  std::string log_dir;
  std::string record_dir;
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
void declare_options(CLI::App& app, RawOptions& raw);

/// A word for an option that is not known: the nearest one, or where to look.
std::string advice_for(const CLI::App& app, const std::string& unknown);

}  // namespace tutti::launcher
