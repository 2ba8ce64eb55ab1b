#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "models/protocols.hpp"

namespace tutti::models {
namespace {

constexpr const char* kNotFound = "not needed";

std::vector<Model> all_models() {
  std::vector<Model> all = memory_models();
  for (Model& one : sleep_models()) all.push_back(std::move(one));
  return all;
}

/// Weakenings that break no model. threads.md says why the library's orders stay as they are.
const std::vector<std::string> kUnneeded = {
    "end_sleep exchange acq_rel: acquire",
    "end_sleep exchange acq_rel: release",
    "mark_asleep store seq_cst: release",
    "mark_asleep store seq_cst: relaxed",
    "mark_listening compare_exchange seq_cst: acq_rel",
    "mark_listening compare_exchange seq_cst: relaxed",
    "show_block store seq_cst: release",
    "tell_break compare_exchange acq_rel: release",
};

/// By site: the orders to which it is weakened, each with the first model that finds it.
using Found = std::map<std::string, std::map<std::string, std::string>>;

void weaken_each(const Model& model, const Sites& sites, Found& found) {
  for (const Site& site : sites) {
    if (std::string_view(site.at.file_name()).find("src/") == std::string_view::npos) continue;
    for (const Order weaker : weaker_than(site)) {
      std::string& by = found[site.name][name_of(weaker)];
      if (!by.empty() && by != kNotFound) continue;
      const Weakening weakening{site.name, weaker};
      Options options = model.options;
      options.weakening = &weakening;
      Sites own = sites;
      const bool is_found = !explore(model.make, own, options).error.empty();
      by = is_found ? std::string(model.protocol) + ": " + model.name : kNotFound;
    }
  }
}

/// A row of the table in threads.md.
std::string row_of(const std::string& site, const std::map<std::string, std::string>& orders) {
  std::string row = "| `" + site + "` |";
  for (const auto& [order, by] : orders) row += " " + order + ": " + by + ";";
  row.back() = ' ';
  return row + "|";
}

/// The protocols keep what they promise. Each order that is weakened is found, or listed above.
TEST(Protocols, NeedTheirOrders) {
  Found found;
  for (const Model& model : all_models()) {
    Sites sites;
    const Report report = explore(model.make, sites, model.options);
    EXPECT_EQ(report.error, "") << model.protocol << ": " << model.name << "\n" << report.trace;
    EXPECT_GT(report.executions, 0U) << model.name;
    std::cout << model.protocol << ": " << model.name << ": " << report.executions
              << " executions, " << report.states << " states, " << report.cut << " cut"
              << std::endl;
    weaken_each(model, sites, found);
  }
  std::vector<std::string> unneeded;
  std::string table;
  std::ifstream file(TUTTI_THREADS_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  for (const auto& [site, orders] : found) {
    for (const auto& [order, by] : orders)
      if (by == kNotFound) unneeded.push_back(site + ": " + order);
    const std::string row = row_of(site, orders);
    table += row + "\n";
    EXPECT_NE(page.str().find(row + "\n"), std::string::npos) << "threads.md lacks: " << row;
  }
  std::vector<std::string> expected = kUnneeded;
  std::ranges::sort(expected);
  std::ranges::sort(unneeded);
  EXPECT_EQ(unneeded, expected);
  std::cout << table;
}

}  // namespace
}  // namespace tutti::models
