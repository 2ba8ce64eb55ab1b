#include "apps/bench/report.hpp"

#include <gmock/gmock.h>

#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/csv_report.hpp"
#include "apps/bench/html_report.hpp"
#include "measured_point.hpp"

namespace tutti::bench {
namespace {

using testing::HasSubstr;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Ours twice as fast as the best peer; one that failed, with a text that needs escaping.
Results two_sizes() {
  Results results;
  for (const std::uint64_t bytes : {8U, 4096U}) {
    results.points.push_back(point_of(
        Operation::all_reduce, 4, bytes,
        {measured("tutti", 3), measured("impi", 7), failed("gloo", "said \"no, <never>\"")}));
    results.points.back().hops = {30e-9};
    results.points.back().others = 0.17;
  }
  results.points.push_back(point_of(Operation::barrier, 4, 0, {measured("tutti", 3)}));
  results.started = {{"tutti", 4, "tutti 1", "by hand", {}}, {"gloo", 4, {}, {}, "<missing>"}};
  return results;
}

Settings settings() {
  Settings settings;
  settings.libraries = {"tutti", "impi", "gloo"};
  return settings;
}

TEST(Table, HasTheColumnsOfOsuAndNcclTests) {
  const Point point = two_sizes().points[1];
  const auto head = split(table_head(point), '\n');
  EXPECT_EQ(head.at(0), "all_reduce, 4 ranks");
  EXPECT_EQ(
      words(head.at(1)),
      words("library size avg min max p50 p99 vcs ivcs algbw busbw ratio cores hop ns others"));
  const auto rows = split(table_rows(point), '\n');
  ASSERT_EQ(rows.size(), 3U);
  // 4096 bytes in 3 us: 1.37 GB/s; times 1.5 for 4 ranks.
  EXPECT_EQ(words(rows[0]),
            words("tutti 4K 3.00 2.00 4.00 50.5 99.0 0.50 0.03 1.37 2.05 0.50 near 30 17%"));
  EXPECT_EQ(words(rows[1]), words("impi 4K 7.00 6.00 8.00 50.5 99.0 0.50 0.03 0.59 0.88 best"));
  EXPECT_EQ(words(rows[2]), words("gloo 4K said \"no, <never>\""));
}

TEST(Table, EachOfOursHasARatioToTheBestPeer) {
  const Point point =
      point_of(Operation::all_reduce, 2, 8,
               {measured("tutti", 3), measured("unchecked", 1), measured("mpich", 1)});
  const auto rows = split(table_rows(point), '\n');
  EXPECT_EQ(words(rows[0]).at(11), "2.00");
  EXPECT_EQ(words(rows[1]).at(11), "1.00");
  EXPECT_EQ(words(rows[2]).at(11), "best");
}

TEST(Json, HasEveryColumn) {
  const auto json = to_json(settings(), two_sizes());
  const auto& point = json.at("points").at(1);
  EXPECT_EQ(point.at("count"), 1024);
  const auto& ours = point.at("libraries").at("tutti");
  for (const auto& [name, value] : {std::pair("avg_us", 3.0),
                                    {"min_us", 2},
                                    {"max_us", 4},
                                    {"p50_us", 50.5},
                                    {"p99_us", 99.01},
                                    {"algbw_gb_s", 4.096 / 3},
                                    {"busbw_gb_s", 1.5 * 4.096 / 3}})
    EXPECT_NEAR(ours.at(name).get<double>(), value, 1e-9) << name;
  const auto& barrier = json.at("points").at(2).at("libraries").at("tutti");
  EXPECT_FALSE(barrier.contains("algbw_gb_s") || barrier.contains("busbw_gb_s")) << barrier;
}

TEST(Csv, HasALinePerPointAndLibrary) {
  const auto lines = split(to_csv(two_sizes()), '\n');
  ASSERT_EQ(lines.size(), 1U + 3 + 3 + 1);
  EXPECT_EQ(lines[0],
            "operation,ranks,library,size,count,avg_us,min_us,max_us,p50_us,p99_us,"
            "voluntary_switches,involuntary_switches,algbw_gb_s,"
            "busbw_gb_s,ratio,cores,others_cpu,failure");
  EXPECT_EQ(
      lines[4],
      "all_reduce,4,tutti,4096,1024,3,2,4,50.5,99.01,0.5,0.025,1.36533,2.048,0.5,near,0.170,");
  EXPECT_EQ(lines[6],
            "all_reduce,4,gloo,4096,1024,,,,,,,,,,,near,0.170,\"said \"\"no, <never>\"\"\"");
  EXPECT_EQ(lines[7], "barrier,4,tutti,0,0,3,2,4,50.5,99.01,0.5,0.025,,,,unknown,0.000,");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Html, HoldsEveryRowAndPlotsAllLibraries) {
  const std::string page = to_html(settings(), two_sizes());
  EXPECT_EQ(count_of(page, "<tr class="), 7U);
  EXPECT_EQ(count_of(page, "<h2>"), 2U);
  EXPECT_THAT(page, HasSubstr("<td>tutti</td><td>4K</td><td>1024</td><td>3</td><td>2</td><td>4</td>"
                              "<td>50.5</td><td>99</td><td>1.37</td><td>2.05</td><td>0.5</td>"));
  // Latency and bandwidth of all_reduce; a barrier has no sizes.
  EXPECT_EQ(count_of(page, "<polyline"), 4U) << "two libraries, two plots";
  EXPECT_EQ(count_of(page, "<title>impi, 4K: 7 microseconds</title>"), 1U);
  EXPECT_EQ(count_of(page, "<title>tutti, 4K: 2.05 GB/s</title>"), 1U);
  EXPECT_THAT(page, HasSubstr("said &quot;no, &lt;never&gt;&quot;"));
  EXPECT_THAT(page, HasSubstr("&lt;missing&gt;"));
}

TEST(Html, NeedsNoOtherFile) {
  const std::string page = to_html(settings(), two_sizes());
  for (const char* reference :
       {"http", "//", "src=", "href", "url(", "@import", "<script", "<link"})
    EXPECT_EQ(count_of(page, reference), 0U) << reference;
}

}  // namespace
}  // namespace tutti::bench
