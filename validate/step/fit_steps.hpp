// Finds the bands of whole steps (model/bands/step_bands.hpp) on steps that were recorded, and checks them on those that
// were held out.
#pragma once

#include <string>
#include <vector>

#include "model/bands/step_bands.hpp"
#include "validate/fit/band_rows.hpp"

namespace plumbline {

/// One step that was measured whole, or an answer of several.
struct WholeStep {
  std::string gpu, stack, kind, place;
  double residual = 0;  ///< ln(measured / predicted)
  bool inside = false;  ///< its band, as predictions have it today
};

/// Steps on that side of the rule, priced as their stack and clock have it; those that cannot be are in `left_out`, each
/// with its place and reason. Rows that do not leave an engine 15 % of the memory are left out: it ran fewer at a time
/// (engines take 10 to 15 % for activations and graphs; vLLM and TensorRT-LLM 10 %, SGLang 12 %).
std::vector<WholeStep> whole_steps(const std::vector<StepSource>& sources, Half half,
                                   std::vector<std::string>& left_out);

StepBands fit_step_bands(const std::vector<WholeStep>& steps);

/// Held-out steps inside their bands, by stack and kind.
struct StepsInside {
  std::string stack, kind;
  long steps = 0, inside = 0;
};
std::vector<StepsInside> steps_inside(const std::vector<WholeStep>& steps);

}  // namespace plumbline
