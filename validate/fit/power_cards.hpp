// What rows of a power fit say of the card that they ran on: its memory, by the memory's own reading, and its heat.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validate/fit/power_counts.hpp"

namespace plumbline {

/// The memory's own reading as a straight line of DRAM traffic: picojoules a byte, and what it takes at rest.
struct MemoryLine {
  double pJ_per_B = 0, rest_W = 0;
};
/// From cold work and work that moves nothing. Zeros where the board has no such reading.
MemoryLine memory_line(const std::vector<PowerCounts>& rows);

/// What L2 does not keep of warm operands is a matter of its replacement, and the plans' weakest count: the memory's
/// reading says how much it was.
void count_traffic_of_warm_rows(const MemoryLine& line, std::vector<PowerCounts>& rows);

/// What a byte takes in the memory of each recording's card, by its reading, over what it takes in that of the recording
/// with most rows. H200s differ by a quarter there (24 and 33 pJ a byte in two sessions), and rows of a kind that only one
/// of them ran must not be taken for dearer than the others'.
std::map<std::string, double> memory_of_cards(const std::vector<PowerCounts>& rows);
/// The rows as if all had been run on the card with most of them: bytes of memory count for what they took, of which
/// `supply` is the memory's own.
std::vector<PowerCounts> as_on_one_card(std::vector<PowerCounts> rows, const std::map<std::string, double>& memory,
                                        double supply);

/// The chip's temperature as a straight line of power: reports and leakage need no more.
struct HeatLine {
  double cool_C = 0, kelvin_per_W = 0;
};
/// `otherwise_C`, whatever the power, where fewer than three rows say theirs.
HeatLine fit_temperature(const std::vector<PowerCounts>& rows, double otherwise_C);
/// Takes from each row's power what its heat adds above the chip's temperature at 0 W, by a slope that the calibration has from
/// elsewhere: steady runs cannot tell it from the rest, since their temperature follows their power.
void without_heat(double leakage_W_per_K, const HeatLine& heat, std::vector<PowerCounts>& rows);
/// The power that is drawn once the temperature has followed, of one without its heat.
double with_heat(double watts, double leakage_W_per_K, const HeatLine& heat);

}  // namespace plumbline
