#include <nlohmann/json.hpp>

#include "model/words.hpp"
#include "validate/timeline/compare_timeline.hpp"

namespace plumbline {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson row_json(const TimelineRow& row) {
  OrderedJson out{{"name", row.name},
                  {"op", row.op},
                  {"dtype", row.dtype},
                  {"shape", row.shape},
                  {"executions", row.executions},
                  {"expected", row.expected},
                  {"measured_s", row.measured.in(units::s)},
                  {"predicted_s", row.predicted.in(units::s)},
                  {"ratio", nullptr},
                  {"measured_dram_bytes", nullptr},
                  {"predicted_dram_bytes", row.predicted_dram.in(units::B)}};
  if (row.measured > Seconds{}) out["ratio"] = row.predicted / row.measured;
  if (row.measured_dram) out["measured_dram_bytes"] = row.measured_dram->in(units::B);
  return out;
}

}  // namespace

std::string timeline_json(const TimelineReport& r) {
  const Timeline& t = r.timeline;
  OrderedJson out{{"schema", "plumbline.validate.timeline.v1"},
                  {"source", name(t.source)},
                  {"file", t.file},
                  {"card", t.card.name},
                  {"gpu", r.gpu},
                  {"stack", r.stack},
                  {"clock", word_of(kClockWords, r.clock)},
                  {"what", model_row_text(r.asked)},
                  {"steps", r.alignment.steps},
                  {"launches", t.kernels.size()},
                  {"busy_s", t.busy().in(units::s)},
                  {"span_s", t.span().in(units::s)},
                  {"matched_s", r.matched().in(units::s)},
                  {"predicted_matched_s", r.predicted_matched().in(units::s)},
                  {"unmatched_share", r.unmatched_share()},
                  {"predicted_step_s", r.step.latency.in(units::s)}};
  OrderedJson operators = OrderedJson::array(), launches = OrderedJson::array(), rest = OrderedJson::array();
  for (const TimelineRow& row : by_operator(r)) operators.push_back(row_json(row));
  for (const TimelineRow& row : r.rows) launches.push_back(row_json(row));
  for (const LeftOver& each : r.left_over) {
    rest.push_back(
        {{"kernel", each.kernel}, {"call", each.call}, {"count", each.count}, {"time_s", each.time.in(units::s)}});
  }
  out["operators"] = std::move(operators);
  out["nodes"] = std::move(launches);
  out["unmatched"] = std::move(rest);
  return out.dump(2, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
