// What runs beside an operator of a step, in words: behind its formula.
//
//     beside   moe_dispatch, which holds 24 of 132 SMs and 8 % of DRAM: 3.1 us longer
#include <string>

#include "arch/format.hpp"
#include "model/engine/rates.hpp"
#include "model/engine/timing.hpp"
#include "model/report/report.hpp"
#include "model/schedule/side_by_side.hpp"

namespace plumbline {
namespace {

std::string held(const OpPrediction& op, const Rates& m) {
  const double dram = dram_time(op.dram_read, op.dram_write, m) / op.time;
  return format(sms_held(op, m)) + " of " + format(m.sm_count) + " SMs and " + percent(dram) + " of DRAM";
}

}  // namespace

std::string beside_text(const StepPrediction& step, const NodePrediction& n, const Machine& machine) {
  if (n.beside < 0) return "";
  const Rates& m = machine.rates();
  const NodePrediction& other = step.nodes.at(static_cast<std::size_t>(n.beside));
  std::string text = "    beside   " + std::string(other.node->name);
  if (n.node->stream == 0) text += ", which holds " + held(other.op, m);
  else text += ", from which it takes " + held(n.op, m);
  if (n.tax > 1e-6 * n.op.time) text += ": " + format(n.tax) + " longer";
  else text += ": no longer than by itself";
  if (n.hidden > Seconds{}) {
    text +=
        "; " + percent(n.hidden / (n.op.time + n.gap + n.tax)) + " of it runs beside others, and nobody waits for it";
  }
  return text + "\n";
}

}  // namespace plumbline
