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

/// Where and when. 0: not known.
struct Session {
  std::string gpu;  ///< as the driver names the card
  std::string compute_capability, driver, runtime, date;
  int sms = 0;
  double l2_bytes = 0, memory_bytes = 0, memory_clock_MHz = 0, power_limit_W = 0, seconds = 0;
  double cool_C = 0, warm_C = 0;  ///< the chip before and after
  int other_processes = 0;        ///< the most that were seen computing on the card beside this one
};

}  // namespace plumbline
