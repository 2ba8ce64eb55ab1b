// The library that tutti has in it, too; neighbours.symbols looks at the names.

#include <nlohmann/json.hpp>

bool use_neighbour() { return nlohmann::json::parse(R"({"a": [1, 2]})").at("a").at(1) == 2; }
