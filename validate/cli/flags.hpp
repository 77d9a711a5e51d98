// The flags of `validate`: one row of a table each, with what its value looks like, its help and its reader. Which of
// them a command takes stands in modes.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/types.hpp"
#include "validate/fit/fit_calibration.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// A command line as it was given.
struct Flags {
  std::vector<std::string> operands;  ///< what is no flag: files, a model
  std::set<std::string> given;        ///< names, "--gpu"
  // machine
  std::string gpu, calibration, stack, attention;
  StackChoice way;  ///< its algorithm and protocol of collectives alone
  std::vector<Override> sets;
  std::optional<KernelSet> kernels;
  std::optional<ClockMode> clock;
  // which rows
  std::vector<RowFilter> where;
  std::vector<std::string> ops;
  Seconds min_time;
  double least_cap_percent = 0, most_cap_percent = 1000;
  // what to write where
  std::string format, out, report, rows, probes;
  std::optional<double> fail_over_percent;
  // fits
  std::string family, source;
  std::vector<FreeScalar> free;
  // card, recordings
  std::vector<std::string> studies;
  std::string replay, repeat;
  std::int64_t gpus = 1;
  std::string nccl, only;
  // one step
  std::string model, phase, dtype;
  std::int64_t batch = 1, context = 1024, prompt = 1024, page = 64, tensor = 1, replicas = 1, layers = 0;

  bool has(std::string_view flag) const { return given.count(std::string(flag)) > 0; }
};

struct Flag {
  std::string_view name;   ///< "--gpu"
  std::string_view value;  ///< "NAME|FILE.json"; empty: a switch
  bool repeatable;
  std::string_view help;
  /// Puts the value into its place; throws BadInput that starts with the flag's name.
  void (*read)(Flags& flags, const std::string& text);
};

const std::vector<Flag>& flag_table();
/// Null for a name that no flag has.
const Flag* find_flag(std::string_view name);

/// A flag that has no meaning for what was asked is refused, never ignored: throws BadInput.
void refuse(const Flags& flags, const std::vector<std::string_view>& names, const std::string& why);

}  // namespace plumbline
