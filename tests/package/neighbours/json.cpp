// Where tutti's copy throws this one would end the process.
#define JSON_THROW_USER(exception) std::abort()

#include <cstdlib>

#include <nlohmann/json.hpp>

bool use_neighbour() { return nlohmann::json::parse(R"({"a": [1, 2]})").at("a").at(1) == 2; }
