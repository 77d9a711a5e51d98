// What readers of recordings share. Each refuses what cannot be, with its place.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "arch/json_reader.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/measurer.hpp"

namespace plumbline::recorded {

double positive(const JsonValue& value);
double not_negative(const JsonValue& value);
std::int64_t count(const JsonValue& value);
MeasuringSession read_session(const JsonValue& value);
struct TrafficKey {
  std::string_view key;
  std::optional<Bandwidth> Conditions::*rate;
};
inline constexpr std::array<TrafficKey, 4> kTrafficKeys{{{"pcie_tx_B_per_s", &Conditions::pcie_tx},
                                                         {"pcie_rx_B_per_s", &Conditions::pcie_rx},
                                                         {"nvlink_tx_B_per_s", &Conditions::nvlink_tx},
                                                         {"nvlink_rx_B_per_s", &Conditions::nvlink_rx}}};

/// The keys of Conditions among those of a case or a step.
Conditions read_conditions(const JsonValue& value);

}  // namespace plumbline::recorded
