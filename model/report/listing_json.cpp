#include "model/report/listing.hpp"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace plumbline {
namespace {

nlohmann::ordered_json value_of(const Listing::Cell& cell) {
  if (const auto* word = std::get_if<std::string>(&cell.value)) return *word;
  const double figure = std::get<double>(cell.value);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (figure == std::floor(figure) && std::abs(figure) < kExact) return static_cast<std::int64_t>(figure);
  return figure;
}

}  // namespace

std::string Listing::json() const {
  auto all = nlohmann::ordered_json::array();
  for (const auto& row : rows_) {
    nlohmann::ordered_json object;
    for (std::size_t i = 0; i < row.size(); ++i) object[columns_[i].key] = value_of(row[i]);
    all.push_back(std::move(object));
  }
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
