#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::bench {

/// A curve of a plot. Values are above 0, places in ascending order.
struct Curve {
  std::string name;
  int colour = 0;  ///< 0, 1, ...: the colour and the marker, the same in all plots of a page
  struct Spot {
    double x = 0;  ///< bytes
    double y = 0;
  };
  std::vector<Spot> spots;
};

/// An SVG element: curves over the message size, both axes logarithmic. `unit` stands at the y axis
/// ("us", "GB/s"). Its colours are the classes of kPlotStyle.
std::string log_plot(std::string_view title, std::string_view unit,
                     const std::vector<Curve>& curves);

/// The CSS of the plots, which a page needs once.
extern const std::string_view kPlotStyle;

/// Text for HTML.
std::string escaped(std::string_view text);

}  // namespace tutti::bench
