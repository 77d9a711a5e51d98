// Quantity -> text and back: "3.35 TB/s", "77.3 us", "131 KiB". The only place that knows prefixes.
#pragma once

#include <string>
#include <string_view>

#include "arch/units.hpp"

namespace plumbline {

/// Three significant digits and the prefix that keeps the number between 1 and 1000. Bytes take decimal prefixes (GB);
/// `format_binary` takes KiB, MiB, GiB.
std::string format(Seconds value);
std::string format(Bytes value);
std::string format_binary(Bytes value);
std::string format(Bandwidth value);
std::string format(Flops value);
std::string format(FlopRate value);
std::string format(Hertz value);
std::string format(Watts value);
std::string format(Joules value);
std::string format(Intensity value);
/// A plain number with three significant digits: 0.00123, 12.3, 4567.
std::string format(double value);
/// Shortest text that reads back to the same double (CSV and JSON).
std::string format_exact(double value);

/// "4.8 TB/s", "6TB/s", "1980 MHz", "330ns": number, optional space, unit. Throws BadInput naming the expected unit;
/// "GBps", "Gb/s" (bits) and a missing unit are refused with what was probably meant.
Bytes parse_bytes(std::string_view text);
Bandwidth parse_bandwidth(std::string_view text);
Seconds parse_seconds(std::string_view text);
Hertz parse_hertz(std::string_view text);
Watts parse_watts(std::string_view text);
FlopRate parse_flop_rate(std::string_view text);

}  // namespace plumbline
