#include <nlohmann/json.hpp>

#include "validate/report.hpp"

namespace plumbline {

namespace {

using nlohmann::ordered_json;

ordered_json worst_of(const ClassSummary& c) {
  return {{"shape", c.worst.shape},
          {"place", c.worst.place},
          {"measured_s", c.worst.measured.in(units::s)},
          {"predicted_s", c.worst.predicted.in(units::s)},
          {"ratio", c.worst.predicted / c.worst.measured},
          {"limiter", c.worst.limiter}};
}

ordered_json class_of(const ClassSummary& c) {
  ordered_json out = {{"gpu", c.gpu},
                      {"op", c.op},
                      {"dtype", c.dtype},
                      {"size", name(c.size)},
                      {"count", c.count},
                      {"mape", c.mape},
                      {"median_abs_ln", c.median_error},
                      {"p90_abs_ln", c.p90_error},
                      {"bias_mean_ln", c.mean_bias},
                      {"bias_median_ln", c.median_bias},
                      {"within_band", c.within_band},
                      {"spearman", nullptr},
                      {"roofline_median_abs_ln", c.roofline_median_error},
                      {"roofline_bias_median_ln", c.roofline_median_bias},
                      {"worst", worst_of(c)}};
  if (c.spearman) out["spearman"] = *c.spearman;
  if (c.power_count > 0) out["power"] = {{"count", c.power_count}, {"median_abs_ln", c.power_median_error}};
  return out;
}

}  // namespace

std::string json_report(const ValidationReport& report) {
  ordered_json out = {{"schema", "plumbline.validate.v1"},
                      {"files", report.files},
                      {"kernels", report.kernels},
                      {"clock", report.clock},
                      {"rows",
                       {{"compared", report.compared},
                        {"bad", report.bad},
                        {"not_modelled", report.not_modelled},
                        {"filtered", report.filtered},
                        {"other_gpu", report.other_gpu}}},
                      {"classes", ordered_json::array()},
                      {"assumptions", report.assumptions}};
  for (const ClassSummary& c : report.classes) out["classes"].push_back(class_of(c));
  // Names come from files: bytes that are not UTF-8 become U+FFFD instead of an exception.
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
