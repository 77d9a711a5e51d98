// What a probe leaves behind: numbers with their spread and settings.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

/// Median and 10-90 % quantiles.
struct Spread {
  double median = 0, low = 0, high = 0;
  int samples = 0;
};
/// Of at least one sample; quantiles by nearest rank.
Spread spread(std::vector<double> samples);

/// One measured number: `name` ends in its unit, `setting` is `key=value;...` of what was varied.
struct Record {
  std::string name, setting;
  Spread value;
};

/// One comparison with the reference.
struct Check {
  std::string op, shape;
  double error = 0, allowed = 0;  ///< ||out - ref|| / ||ref||
  std::string fault;              ///< empty: passed
};

/// Where and when.
struct Session {
  std::string gpu, driver, runtime, date;
  int sms = 0;
  double l2_bytes = 0, memory_clock_MHz = 0, power_limit_W = 0, seconds = 0;
};

/// The record of that name with the largest (sign 1) or smallest (sign -1) median, or nothing.
const Record* best(const std::vector<Record>& records, const std::string& name, int sign);

/// Writes machine.json, machine.csv and checks.csv under `folder`, which exists. Throws BadInput when a file cannot be
/// written.
void write_results(const std::string& folder, const Session& session, const std::vector<Check>& checks,
                   const std::vector<Record>& records);

}  // namespace plumbline
