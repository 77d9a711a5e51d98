// What the probes found on one card: read, written, and asked by name and setting.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/records.hpp"

namespace plumbline {

struct ProbeRun {
  Session session;
  std::vector<Record> records;
};

/// JSON, one record a line; `parse_probe_run` reads it back to six digits.
std::string probe_run_json(const ProbeRun& run);
/// Strict but for "scalars", which files of 2026-11-20 hold. Throws BadInput with the place.
ProbeRun parse_probe_run(const std::string& text, const std::string& place);

/// The value of `key` in "key=value;...", or "".
std::string_view setting_of(const Record& record, std::string_view key);
/// The same as a number; nothing when it is none.
std::optional<double> number_of(const Record& record, std::string_view key);

/// Records of that name that pass, in order.
using RecordTest = std::function<bool(const Record&)>;
std::vector<const Record*> records_of(const ProbeRun& run, std::string_view name, const RecordTest& test = {});
/// The one with the largest median; nothing when there is none.
const Record* best_of(const std::vector<const Record*>& records);

/// Runs all probes on the card at hand, about 90 s, or without the `energies` some 5 s; `progress` is told a line
/// at a time.
using ProbeProgress = std::function<void(const std::string& line)>;
using RunProbes = std::function<ProbeRun(bool energies, const ProbeProgress& progress)>;

}  // namespace plumbline
