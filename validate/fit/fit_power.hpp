// The energies, voltage and data factors of a card, fitted to steady runs of known time, clock and power.
//
// Power is linear in everything but the voltage curve and the data factors: those few are searched (Nelder, Mead 1965),
// and for each trial of them the energies are the non-negative least squares (Lawson, Hanson 1974) of relative errors.
// Counts of what a launch does come from the engine's own demands; times and clocks are the measured ones, so that no
// error of a predicted time gets into an energy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/engine/power.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

/// One run: what it did, how long it took, and what the board said.
struct PowerRow {
  Op op;
  bool warm = false;
  DataPattern data = DataPattern::normal;
  KernelSet kernels = KernelSet::own;
  ClockMode clock = ClockMode::steady;
  Seconds time;
  std::optional<Watts> power;         ///< steady runs
  std::optional<Hertz> sm_clock;      ///< mean of the SMs' own counters
  std::optional<Hertz> board_clock;   ///< what the regulator has set
  std::optional<Watts> memory_power;  ///< of the memory's domain
  double busy = 1;                    ///< share of the power's window in which the kernels ran
  std::optional<double> temperature_C;
  std::optional<GemmPlan> gemm_plan;  ///< as it was launched, where the recording says so and the kernel is ours
  std::optional<AttentionPlan> attention_plan;
  HeldOut held_out = HeldOut::no;
  std::string text;   ///< "gemm bf16 M=...": for people
  std::string place;  ///< "power.csv:17"
  std::string card;   ///< the recording that it is of, and so the card; empty: of cards that are not told apart
};
inline const std::string& place_of(const PowerRow& row) { return row.place; }
/// How it ran: warm or cold, cut as it was launched. Points into the row.
PredictOptions options_of(const PowerRow& row);

/// Recordings (.json) give their cases, CSV files their rows with a power. Faults are left out.
std::vector<PowerRow> read_power_rows(const std::vector<std::string>& files, KernelSet csv_kernels,
                                      const std::string& gpu);

/// The row with the power that its kernels drew, where the board's holds waits of the host's making (its window ends
/// when the energy counter steps, and holds energy / power for each execution, its kernels' time or more);
/// `calibration` says what waiting takes. Nothing for steady rows that waited for more than a tenth: their clock was
/// another one too.
std::optional<PowerRow> while_busy(const Gpu& gpu, const Calibration& calibration, const PowerRow& row);

struct PowerFit {
  Calibration calibration;  ///< `start` with the new section
  PowerScalars scalars;
  long power_rows = 0, clock_rows = 0;
  double power_median = 0, power_p90 = 0;  ///< of |predicted / measured - 1| at measured time and clock
  double skipped_median = 0;               ///< of |ln| of the SMs' clock over the one set
  std::vector<std::string> worst;          ///< rows with the largest errors, for people
};

/// Throws BadInput when there are fewer rows than scalars. `steps`: of each search at most.
PowerFit fit_power(const Gpu& gpu, const Calibration& start, const std::vector<PowerRow>& rows,
                   const std::string& source, int steps = 1000);
std::string fit_report(const PowerFit& fit);

/// Adds the quantiles of residuals (model/engine/power.hpp) by fitting without a fifth of the shapes at a time.
void add_power_bands(const Gpu& gpu, const std::vector<PowerRow>& rows, const std::string& source,
                     Calibration& calibration);

/// Steady rows against the engine run freely: medians of |ln(predicted / measured)| of time, power and clock, by class
/// of work. `least_power`, `most_power`: shares of the cap between which rows count; `at_least`: shorter are left out.
struct PowerTableOptions {
  double least_power = 0, most_power = 10;
  Seconds at_least;
};
/// One class of work, or "all"; errors are natural logarithms, empty where no row has the reading.
struct PowerClass {
  struct Errors {
    std::optional<double> median, p90;  ///< of |ln(predicted / measured)|
  };
  std::string name;
  long rows = 0;
  Errors time, power, clock;
  std::optional<double> power_bias;  ///< median of ln(predicted / measured)
};
std::vector<PowerClass> power_classes(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                                      const PowerTableOptions& options);
std::string power_table(const std::vector<PowerClass>& classes);
/// One line or one object a class.
std::string power_csv(const std::vector<PowerClass>& classes);
std::string power_json(const std::vector<PowerClass>& classes);
/// `visit(row, prediction of a free run)` for the steady rows that count and can be priced.
void for_steady_rows(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                     const PowerTableOptions& options,
                     const std::function<void(const PowerRow&, const OpPrediction&)>& visit);
/// Of all those rows together.
struct PowerErrors {
  long rows = 0;
  double time_median = 0, power_median = 0, clock_median = 0;
};
PowerErrors power_errors(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                         const PowerTableOptions& options);

}  // namespace plumbline
