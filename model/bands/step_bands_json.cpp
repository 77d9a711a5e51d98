#include <cmath>
#include <nlohmann/json.hpp>

#include "model/bands/step_bands.hpp"

namespace plumbline {

std::string to_json(const StepBands& bands) {
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  nlohmann::ordered_json out;
  out["schema"] = "plumbline.steps.bands.v1";
  out["note"] =
      "Quantiles (5 %, median, 95 %) of ln(measured / predicted) of whole steps, by stack and kind of model, from "
      "training "
      "rows alone. Written by `validate fit-steps` from the list data/studies/bands.json.";
  out["stacks"] = nlohmann::ordered_json::object();
  for (const auto& [name, band] : bands.all()) {
    if (bands.stands_apart(name.first)) out["stacks"][name.first]["apart"] = true;
    out["stacks"][name.first][name.second] = {{"low", rounded(band.low)},
                                              {"middle", rounded(band.middle)},
                                              {"high", rounded(band.high)},
                                              {"rows", band.rows}};
  }
  return out.dump(2) + "\n";
}

}  // namespace plumbline
