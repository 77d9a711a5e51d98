// Reports as JSON: SI units, the unit at the end of the key, `null` where the model has no figure yet.
#include <string>

#include "model/report/json_parts.hpp"
#include "model/report/power_trace.hpp"
#include "model/report/report.hpp"
#include "model/report/rule_loss.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

/// FLOPs a DRAM byte; null for an operator that stays in L2 or moves nothing.
Json intensity(const OpPrediction& p) {
  return p.dram_bytes() > 0.0 * units::B ? Json(finite(p.intensity().in(units::FLOP_per_B), "intensity"))
                                         : Json(nullptr);
}

/// What an operator's row in the llm report and the op report share: one execution.
void put_figures(Json& row, const OpPrediction& p) {
  row["latency_s"] = finite(p.time.in(units::s), "latency_s");
  row["latency_low_s"] = finite(p.low.in(units::s), "latency_low_s");
  row["latency_high_s"] = finite(p.high.in(units::s), "latency_high_s");
  row["bound"] = name(p.bound);
  row["limiter"] = name(p.limiter);
  row["limiter_share"] = finite(p.limiter_share, "limiter_share");
  row["flops"] = finite(p.flops.in(units::FLOP), "flops");
  row["dram_bytes"] = finite(p.dram_bytes().in(units::B), "dram_bytes");
  row["intensity"] = intensity(p);
  row["power_W"] = optional_figure(p.power, units::W, "power_W");
  row["power_low_W"] = optional_figure(p.power_low, units::W, "power_low_W");
  row["power_high_W"] = optional_figure(p.power_high, units::W, "power_high_W");
  row["energy_J"] = optional_figure(p.energy, units::J, "energy_J");
  put_energy_band(row, p, p.time);
  row["sm_clock_Hz"] = finite(p.clock.in(units::Hz), "sm_clock_Hz");
  row["power_limited"] = p.power_limited;
  row["provenance"] = name(p.provenance);
  row["band_rows"] = p.band_rows;  // measured rows behind the band
}

Json operator_rows(const StepReport& r) {
  const StepPrediction& step = r.step;
  Json rows = Json::array();
  for (const NodePrediction& n : step.nodes) {
    Json row{{"name", n.node->name},
             {"op", op_name(n.node->op)},
             {"dtype", dtype_text(n.node->op)},
             {"shape", shape_text(n.node->op)},
             {"pass", word_of(kPassWords, n.node->pass)},
             {"segment", step.graph.segments.at(static_cast<std::size_t>(n.node->segment)).name},
             {"stream", n.node->stream},
             {"count", n.node->count}};
    put_figures(row, n.op);
    row["kernel_s"] = finite(kernel_time(n.op).in(units::s), "kernel_s");
    row["launch_count"] = n.op.launch_count;
    row["gap_s"] = finite(n.gap.in(units::s), "gap_s");
    row["tax_s"] = finite(n.tax.in(units::s), "tax_s");
    row["hidden_s"] = finite(n.hidden.in(units::s), "hidden_s");
    if (explained(r, *n.node)) {
      row["explain"] = explain(n.node->op, n.op, r.machine) + beside_text(step, n, r.machine);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Power over the time of the step: a part's first repetition; repetition r is r x period_s later.
Json power_over_time(const StepPrediction& step) {
  if (!step.power) return nullptr;
  Json parts = Json::array();
  for (const PowerSegment& segment : power_trace(step)) {
    Json slices = Json::array();
    for (const PowerSlice& slice : segment.slices) {
      slices.push_back({{"name", slice.gap ? "gap" : slice.node->node->name},
                        {"t_s", finite(slice.start.in(units::s), "t_s")},
                        {"duration_s", finite(slice.duration.in(units::s), "duration_s")},
                        {"power_W", finite(slice.power.in(units::W), "power_W")}});
    }
    parts.push_back({{"segment", segment.segment->name},
                     {"repeat", segment.repeat},
                     {"period_s", finite(segment.period.in(units::s), "period_s")},
                     {"ops", std::move(slices)}});
  }
  return parts;
}

Json launch_json(const LaunchPrediction& launch) {
  const KernelPlan& plan = launch.demand.plan;
  const LaunchTime& t = launch.time;
  Json alone;
  for (std::size_t k = 0; k < kResourceCount; ++k) {
    const auto resource = static_cast<Resource>(k);
    alone[std::string(name(resource))] = finite(t.by_resource[resource].in(units::s), "resource_s");
  }
  return {{"kernel", launch.kernel},
          {"ctas", plan.ctas},
          {"ctas_per_sm", plan.ctas_per_sm},
          {"threads", plan.threads},
          {"registers_per_thread", plan.registers_per_thread},
          {"shared_memory_bytes", finite(plan.shared_memory.in(units::B), "shared_memory_bytes")},
          {"cluster", plan.cluster},
          {"steps", finite(plan.steps, "steps")},
          {"waves", finite(t.waves, "waves")},
          {"time_s", finite(t.total.in(units::s), "time_s")},
          {"fixed_s", finite(t.fixed.in(units::s), "fixed_s")},
          {"body_s", finite(t.body.in(units::s), "body_s")},
          {"tail_s", finite(t.tail.in(units::s), "tail_s")},
          {"limiter", name(t.limiter)},
          {"resource_s", std::move(alone)}};
}

}  // namespace

std::string step_json(const StepReport& r) {
  const StepPrediction& s = r.step;
  Json out;
  out["schema"] = "plumbline.llm.v1";
  put_model(out, r);
  out["phase"] = word_of(kPhaseWords, r.workload.phase);
  out["batch"] = r.workload.batch;
  out[r.workload.phase == Phase::decode ? "context" : "prompt"] = length(r.workload);
  if (r.workload.phase == Phase::prefill) out["context"] = r.workload.cached;
  put_machine(out, r);
  put_sizes(out, r);
  put_parallel(out, r);
  out["latency_s"] = finite(s.latency.in(units::s), "latency_s");
  out["latency_low_s"] = finite(s.low.in(units::s), "latency_low_s");
  out["latency_high_s"] = finite(s.high.in(units::s), "latency_high_s");
  out["band"] = band_json(s.whole_steps);
  out["tokens_per_s"] = finite(s.tokens_per_s, "tokens_per_s");
  out["energy_J"] = optional_figure(s.energy, units::J, "energy_J");
  put_energy_band(out, s, s.latency);
  out["power_W"] = optional_figure(s.power, units::W, "power_W");
  out["power_low_W"] = optional_figure(s.power_low, units::W, "power_low_W");
  out["power_high_W"] = optional_figure(s.power_high, units::W, "power_high_W");
  out["sm_clock_Hz"] = finite(s.clock.in(units::Hz), "sm_clock_Hz");
  out["power_limited"] = s.power_limited;
  out["uncapped_latency_s"] = finite((s.power_limited ? s.uncapped : s.latency).in(units::s), "uncapped_latency_s");
  const bool per_token = s.energy && s.graph.tokens > 0;
  const double token_J = per_token ? s.energy->in(units::J) / s.graph.tokens : 0;
  out["energy_per_token_J"] = per_token ? Json(finite(token_J, "energy_per_token_J")) : Json(nullptr);
  out["tokens_per_J"] = per_token ? Json(finite(1 / token_J, "tokens_per_J")) : Json(nullptr);
  put_fit(out, r.fit);
  put_load(out, r.load);
  out["memory_bytes"] = memory_json(s.graph.memory, r.machine.gpu().memory.usable_capacity());
  out["time_share"] = shares_json(s.share);
  out["network_s"] = {{"exposed", finite(s.network_exposed.in(units::s), "network_s")},
                      {"hidden", finite(s.network_hidden.in(units::s), "network_s")},
                      {"tax", finite(s.overlap_tax.in(units::s), "network_s")}};
  if (s.graph.copies_beside) {
    out["network_s"]["host"] = {{"exposed", finite(s.host_exposed.in(units::s), "network_s")},
                                {"hidden", finite(s.host_hidden.in(units::s), "network_s")}};
  }
  out["bubble_s"] = finite(s.bubble.in(units::s), "bubble_s");
  out["flops"] = finite(s.flops.in(units::FLOP), "flops");
  out["dram_bytes"] = finite(s.dram_bytes.in(units::B), "dram_bytes");
  put_mfu(out, mfu_of(s, r.machine.gpu()));
  put_training(out, r);
  out["mbu"] = finite(s.mbu, "mbu");
  out["ops"] = operator_rows(r);
  out["dcgm"] = monitor_json(r);
  out["power_trace"] = power_over_time(s);
  out["advice"] = advice_json(r.advice);
  out["assumptions"] = all_assumptions(r.machine, r.llm.assumptions, r.remarks);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string op_json(const OpReport& r) {
  const OpPrediction& p = r.prediction;
  Json out{
      {"schema", "plumbline.op.v1"},        {"op", op_name(r.op)},         {"dtype", dtype_text(r.op)},
      {"shape", shape_text(r.op)},          {"gpu", r.machine.gpu().name}, {"stack", r.machine.stack().name},
      {"kernels", kernels_word(r.machine)}, {"provider", p.provider},      {"clock", word_of(kClockWords, r.clock)},
      {"cache", r.warm ? "warm" : "cold"}};
  put_figures(out, p);
  out["kernel_s"] = finite(kernel_time(p).in(units::s), "kernel_s");
  out["dram_read_bytes"] = finite(p.dram_read.in(units::B), "dram_read_bytes");
  out["dram_write_bytes"] = finite(p.dram_write.in(units::B), "dram_write_bytes");
  out["roofline_s"] = finite(roofline(r.op, r.machine.gpu()).in(units::s), "roofline_s");
  out["launches"] = Json::array();
  for (int i = 0; i < p.launch_count; ++i) {
    out["launches"].push_back(launch_json(p.launches[static_cast<std::size_t>(i)]));
  }
  const OtherKernels others = other_kernels(r.op, p, r.machine);
  if (const auto& loss = others.rule) {
    out["rule"] = {{"library", loss->rule->library},
                   {"what", loss->rule->what},
                   {"source", loss->rule->source},
                   {"splits", loss->picked.attention_plan.splits},
                   {"cheapest_splits", loss->cheapest.attention_plan.splits},
                   {"cheapest_latency_s", finite(loss->cheapest.time.in(units::s), "rule/cheapest_latency_s")}};
  }
  if (others.untuned) {
    out["untuned_latency_s"] = finite(others.untuned->in(units::s), "untuned_latency_s");
  }
  out["explain"] = explain(r.op, p, r.machine, others);
  out["advice"] = advice_json(r.advice);
  out["assumptions"] = all_assumptions(r.machine, {}, r.remarks);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
