#include "model/report/json_parts.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "arch/fabric/cluster.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/llm/layer_kinds.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline {

double finite(double value, const char* key) {
  if (!std::isfinite(value)) throw std::logic_error(std::string("figure is not finite: ") + key);
  return value;
}

Json memory_json(const MemoryNeed& need, Bytes capacity) {
  const auto bytes = [](Bytes b) { return finite(b.in(units::B), "memory_bytes"); };
  Json out{{"weights", bytes(need.weights)},
           {"kv", bytes(need.kv_cache)},
           {"activations", bytes(need.activations)},
           {"optimizer", bytes(need.optimizer)},
           {"workspace", bytes(need.workspace)},
           {"total", bytes(need.total())},
           {"capacity", bytes(capacity)}};
  if (need.gradients > Bytes{}) out["gradients"] = bytes(need.gradients);
  if (need.host > Bytes{}) out["host"] = bytes(need.host);
  return out;
}

Json shares_json(const TimeShare& share) {
  return {{"compute", finite(share.compute, "time_share")},
          {"memory", finite(share.memory, "time_share")},
          {"network", finite(share.network, "time_share")},
          {"latency", finite(share.latency, "time_share")},
          {"launch", finite(share.launch, "time_share")}};
}

Json advice_json(const std::vector<Advice>& advice) {
  Json list = Json::array();
  for (const Advice& each : advice) {
    Json entry = {{"kind", each.kind}, {"text", each.text}, {"time_s", finite(each.time.in(units::s), "time_s")}};
    if (each.energy) entry["energy_J"] = finite(each.energy->in(units::J), "energy_J");
    list.push_back(std::move(entry));
  }
  return list;
}

Json band_json(const WholeStepBand& whole) {
  if (whole.band == nullptr) return nullptr;
  return {{"recorded", whole.recorded}, {"stack", whole.stack}, {"kind", whole.kind}, {"steps", whole.band->rows}};
}

void put_fit(Json& out, const Fit& fit) {
  const auto limit = [](const std::optional<std::int64_t>& most) { return most ? Json(*most) : Json(nullptr); };
  out["fits"] = fit.fits;
  out["reserve_bytes"] = finite(fit.reserve.in(units::B), "reserve_bytes");
  out["max_batch"] = limit(fit.max_batch);
  out["max_context"] = limit(fit.max_context);
  out["fewest_gpus"] = limit(fit.fewest_gpus);
}

void put_mfu(Json& out, const Mfu& mfu) {
  out["mfu"] = finite(mfu.value, "mfu");
  out["mfu_peak_FLOP_per_s"] = finite(mfu.peak.in(units::FLOP_per_s), "mfu_peak_FLOP_per_s");
}

void put_training(Json& out, const StepReport& r) {
  if (r.workload.phase != Phase::train) return;
  if (r.workload.parallel.pipeline > 1) {
    Json stages = Json::array();
    const Bytes capacity = r.machine.gpu().memory.usable_capacity();
    for (const MemoryNeed& need : memory_of_stages(r.llm, r.workload)) stages.push_back(memory_json(need, capacity));
    out["memory_by_stage"] = std::move(stages);
  }
  const Training& t = r.workload.training;
  out["hfu"] = finite(mfu_of(r.step, r.machine.gpu()).with_repeats, "hfu");
  out["tokens_per_s_per_gpu"] = finite(tokens_per_gpu(r), "tokens_per_s_per_gpu");
  out["training"] = {{"micro_batch", micro_batch(r)},
                     {"micro_batches", r.step.graph.pipeline.micro_batches},
                     {"optimizer", word_of(kOptimizerWords, t.optimizer)},
                     {"grad_dtype", name(t.gradient)},
                     {"clip", word_of(kClippingWords, t.clips() ? Clipping::norm : Clipping::none)},
                     {"fp8_recipe", word_of(kFp8RecipeWords, t.fp8)},
                     {"offload", word_of(kOffloadWords, t.offload)},
                     {"recompute", word_of(kRecomputeWords, t.recompute)},
                     {"schedule", word_of(kScheduleWords, t.schedule)},
                     {"vp", t.chunks},
                     {"zero", r.workload.parallel.zero}};
  if (t.recomputed_layers > 0) out["training"]["recompute_layers"] = t.recomputed_layers;
  if (t.sparse != SparseWeights::none) out["training"]["sparse24"] = word_of(kSparseWords, t.sparse);
  if (t.flat_shards) out["training"]["fsdp"] = 1;
  if (const auto& f = r.failures) {
    out["training"]["failures"] = {{"between_s", finite(f->between.in(units::s), "between_s")},
                                   {"checkpoint_s", finite(f->checkpoint.in(units::s), "checkpoint_s")},
                                   {"interval_s", finite(f->interval.in(units::s), "interval_s")},
                                   {"restart_s", finite(f->restart.in(units::s), "restart_s")},
                                   {"trains", finite(f->trains, "trains")}};
  }
  const auto whole = whole_training(r);
  if (!whole) return;
  if (r.failures) out["training"]["days_with_failures"] = finite(whole->days_with_failures, "days_with_failures");
  out["training"]["tokens"] = finite(r.training_tokens, "tokens");
  out["training"]["days"] = finite(whole->days, "days");
  out["training"]["energy_MWh"] = whole->MWh ? Json(finite(*whole->MWh, "energy_MWh")) : Json(nullptr);
}

void put_model(Json& out, const StepReport& r) {
  out["model"] = r.llm.name;
  out["gpu"] = r.machine.gpu().name;
  out["gpus"] = r.workload.parallel.ranks();
}

void put_machine(Json& out, const StepReport& r) {
  out["dtype"] = weight_format(r.llm, r.workload);
  out["kv_dtype"] = kv_format(r.llm, r.workload);
  out["stack"] = r.machine.stack().name;
  out["kernels"] = kernels_word(r.machine);
  out["runtime"] = word_of(kRuntimeWords, r.options.runtime);
  out["fusion"] = word_of(kFusionWords, r.workload.fusion);
  out["clock"] = word_of(kClockWords, r.clock);
}

void put_parallel(Json& out, const StepReport& r) {
  const ParallelPlan& p = r.workload.parallel;
  if (p.ranks() == 1) {
    out["parallel"] = nullptr;
    return;
  }
  out["parallel"] = {{"tp", p.tensor},
                     {"pp", p.pipeline},
                     {"dp", p.data},
                     {"ep", p.expert},
                     {"cp", p.context},
                     {"sp", p.sequence},
                     {"attention_dp", p.attention_data},
                     {"overlap", word_of(kOverlapWords, r.workload.overlap)},
                     {"micro_batches", r.step.graph.pipeline.micro_batches},
                     {"stage", r.step.stage},
                     {"cluster", r.machine.rates().fabric->name}};
}

void put_load(Json& out, const LoadTime& load) {
  out["load_s"] = load.total() ? Json(finite(load.total()->in(units::s), "load_s")) : Json(nullptr);
  out["load_host_s"] = finite(load.host.in(units::s), "load_host_s");
}

namespace {

/// A whole number without a decimal point, as far as doubles hold them exactly.
Json count(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return value < kExact ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

}  // namespace

void put_sizes(Json& out, const StepReport& r) {
  out["warnings"] = r.llm.warnings;
  Json layers = Json::array();
  for (const LayerKind& kind : layer_kinds(r.llm)) {
    layers.push_back(
        {{"stack", word_of(kind.role)}, {"kind", kind.text}, {"count", kind.count}, {"sizes", kind.sizes}});
  }
  out["layers"] = layers;
  out["ignored_keys"] = r.llm.ignored_keys;
  out["params"] = count(r.llm.params + r.llm.tower_params + r.llm.unfilled_params);
  out["tower_params"] = count(r.llm.tower_params);
  if (r.llm.unfilled_params > 0) out["unfilled_params"] = count(r.llm.unfilled_params);
  out["active_params"] = count(r.llm.active_params);
  out["active_params_no_input_embedding"] = count(r.llm.active_params_no_input_embedding);
  out["kv_B_per_token"] = kv_per_token(r.llm, r.workload).in(units::B);
}

}  // namespace plumbline
