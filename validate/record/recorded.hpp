// A recording: what one session on a card measured, in a file that can be replayed anywhere. JSON, schema
// "plumbline.measurements.v1", SI units with the unit in the key, one case a line so that differences can be read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validate/record/measurer.hpp"

namespace plumbline {

struct Recording {
  MeasuringSession session;
  std::vector<Measurement> cases;
};

/// Text that `parse_recording` reads back, to the last digit.
std::string recording_json(const Recording& recording);

/// Strict: unknown keys, numbers that cannot be times, shapes that are no shapes are refused with their place.
Recording parse_recording(const std::string& json_text, const std::string& place);
Recording read_recording(const std::string& file);

/// Plays a recording back as if its card were here. A case that it does not hold comes back with a fault.
class RecordedMeasurer : public Measurer {
 public:
  explicit RecordedMeasurer(Recording recording);
  MeasuringSession session() const override { return recording_.session; }
  Measurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction& priced) override;

 private:
  Recording recording_;
  std::map<std::string, std::size_t> by_key_;
};

}  // namespace plumbline
