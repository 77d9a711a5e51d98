#include "validate/step/card_spread.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "arch/files.hpp"
#include "validate/record/held_out.hpp"

namespace plumbline {
namespace {

std::vector<StepRow> priced_steps(const std::vector<StepSource>& sources, const Calibration& calibration, Half half) {
  std::vector<StepRow> out;
  for (const StepSource& source : sources) {
    if (source.gpu != calibration.gpu || source.recording.empty()) continue;
    const StepRecording recording = parse_step_recording(read_text_file(source.recording), source.recording);
    for (StepRow& row : compare_steps(recording, load_gpu(source.gpu), calibration).rows) {
      const bool trains = held_out(row.measured.what) == HeldOut::no;
      if (row.good() && trains == (half == Half::train)) out.push_back(std::move(row));
    }
  }
  return out;
}

/// How much a row's band lacks, as `card_spread` adds it.
double lacking(const StepRow& row) {
  const double off = (row.measured.time - row.predicted) / row.predicted;
  const double width = (off > 0 ? row.high - row.predicted : row.predicted - row.low) / row.predicted;
  return std::sqrt(std::max(0.0, off * off - width * width));
}

}  // namespace

double card_spread(const std::vector<StepRow>& rows) {
  constexpr double kChance = 0.9;
  std::vector<double> needed;
  for (const StepRow& row : rows) needed.push_back(lacking(row));
  if (needed.empty()) return 0;
  std::sort(needed.begin(), needed.end());
  const auto place = static_cast<std::size_t>(std::ceil(kChance * static_cast<double>(needed.size() + 1)));
  return needed[std::min(place, needed.size()) - 1];
}

void add_card_spread(const std::vector<StepSource>& sources, Calibration& calibration) {
  const auto own = calibration.band_correlation.find("own");
  if (own == calibration.band_correlation.end()) return;
  own->second.card = 0;
  own->second.card = card_spread(priced_steps(sources, calibration, Half::train));
}

StepCoverage step_coverage(const std::vector<StepSource>& sources, const Calibration& calibration, Half half) {
  StepCoverage out;
  for (const StepRow& row : priced_steps(sources, calibration, half)) {
    ++out.steps;
    if (row.low <= row.measured.time && row.measured.time <= row.high) ++out.inside;
  }
  return out;
}

}  // namespace plumbline
