// Laws of an iteration over random plans of whole models: experts on other ranks, layers computed again, fp8, what travels
// beside the passes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"

namespace plumbline::training_laws_test {
namespace {

const Llm& model_of(const std::string& name) {
  static std::map<std::string, Llm> models;
  const auto found = models.find(name);
  return found != models.end() ? found->second : models.emplace(name, load_llm(name)).first->second;
}

Machine machine_of(const std::string& stack) {
  MachineOptions options{stack, ClockMode::steady, {}};
  options.cluster = "dgx_h100";
  return machines().get({"h100_sxm", options});
}

struct Case {
  std::string model, stack;
  Workload workload;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const Workload& w = c.workload;
  const Training& t = w.training;
  const ParallelPlan& p = w.parallel;
  return out << c.model << " by " << c.stack << " batch " << w.batch << " prompt " << w.prompt << " micro-batch "
             << t.micro_batch << " fp8 " << w.precision_given << " recipe " << static_cast<int>(t.fp8) << " recompute "
             << static_cast<int>(t.recompute) << " of " << t.recomputed_layers << " tp " << p.tensor << " sp "
             << p.sequence << " pp " << p.pipeline << " schedule " << static_cast<int>(t.schedule) << " vp " << t.chunks
             << " dp " << p.data << " ep " << p.expert << " cp " << p.context << " zero " << p.zero << " overlap "
             << static_cast<int>(w.overlap);
}

bool has_experts(const std::string& model) { return model != "llama-3.2-1b"; }

/// Nothing where the plan is refused.
std::optional<Seconds> time_of(const Case& c, const std::string& stack) {
  try {
    return predict(model_of(c.model), c.workload, machine_of(stack), RunOptions{}).latency;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void draw_passes(Case& c) {
  Training& t = c.workload.training;
  c.workload.precision_given = *rc::gen::arbitrary<bool>();
  if (c.workload.precision_given) c.workload.precision = *parse_precision("fp8");
  t.fp8 = c.workload.precision_given ? *rc::gen::element(Fp8Recipe::tensor, Fp8Recipe::block) : Fp8Recipe::tensor;
  t.gradient = *rc::gen::element(DType::fp32, DType::bf16);
  t.micro_batch = *rc::gen::element(0, 1, 2);
  t.recompute = *rc::gen::element(Recompute::none, Recompute::selective, Recompute::full, Recompute::products);
  if (t.recompute == Recompute::full) t.recomputed_layers = *rc::gen::element(0, 1, 5);
}

void draw_schedule(Case& c) {
  Training& t = c.workload.training;
  t.recomputed_layers = 0;
  t.schedule = *rc::gen::element(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                                 PipelineSchedule::zero_bubble, PipelineSchedule::dual_pipe);
  t.chunks = t.schedule == PipelineSchedule::interleaved ? 2 : 1;
}

void draw_plan(Case& c) {
  ParallelPlan& p = c.workload.parallel;
  p.tensor = *rc::gen::element(1, 1, 2, 4);
  p.sequence = p.tensor > 1 && *rc::gen::arbitrary<bool>();
  p.pipeline = *rc::gen::element(1, 1, 2, 4);
  p.data = *rc::gen::element(1, 2, 4, 8);
  p.context = *rc::gen::element(1, 1, 1, 2);
  p.expert = has_experts(c.model) ? p.tensor * *rc::gen::element<std::int64_t>(1, p.data) : 1;
  p.zero = p.context > 1 ? *rc::gen::element(0, 1) : *rc::gen::element(0, 1, 2, 3);
  if (p.pipeline > 1) draw_schedule(c);
  if (p.data > 1) c.workload.overlap = *rc::gen::element(Overlap::none, Overlap::replicas, Overlap::iteration);
}

Case draw() {
  Case c;
  c.model = *rc::gen::element<std::string>("llama-3.2-1b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite");
  c.stack = *rc::gen::element<std::string>("megatron", "megatron-bridge", "torchtitan");
  c.workload.phase = Phase::train;
  c.workload.batch = 8 * *rc::gen::inRange(1, 9);
  c.workload.prompt = 256 * *rc::gen::inRange(1, 17);
  draw_passes(c);
  return c;
}

Case more_of(const Case& c) {
  Case more = c;
  Workload& w = more.workload;
  Training& t = w.training;
  switch (*rc::gen::inRange(0, has_experts(c.model) ? 5 : 4)) {
    case 0: w.batch *= 2; break;
    case 1: w.prompt *= 2; break;
    case 2: t.gradient = DType::fp32; break;
    case 3:
      if (t.recompute == Recompute::full) t.recomputed_layers = t.recomputed_layers == 1 ? 5 : 0;
      else t.recompute = Recompute::full;
      break;
    default: w.expert_load.power = 1; break;
  }
  return more;
}

/// Twice the work along an axis, layers computed again or a load of experts that is not even are never faster, and no stack
/// is faster than the floor.
RC_GTEST_PROP(PlanLaws, MoreOfAnyPlanIsNeverFaster, ()) {
  Case c = draw();
  draw_plan(c);
  const auto time = time_of(c, c.stack);
  if (!time) return;
  const auto floor = time_of(c, "ideal");
  RC_LOG() << c << std::endl;
  RC_ASSERT(!floor || *floor <= *time);
  const Case more = more_of(c);
  const auto longer = time_of(more, more.stack);
  RC_LOG() << more << ": " << (longer ? longer->in(units::s) : 0) << " s after " << time->in(units::s) << " s"
           << std::endl;
  RC_ASSERT(!longer || *longer >= *time * (1 - 1e-9));
}

/// Bits: degrees of one, one micro-batch that is all, and ZeRO among one replica are no plan.
RC_GTEST_PROP(PlanLaws, DegreesOfOneAreOneGpu, ()) {
  Case plain = draw();
  plain.workload.training.micro_batch = 0;
  Case c = plain;
  c.workload.parallel.micro_batches = 1;
  c.workload.parallel.zero = *rc::gen::element(0, 1);
  c.workload.training.schedule = *rc::gen::element(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b);
  const auto one = time_of(plain, plain.stack), by_plan = time_of(c, c.stack);
  RC_LOG() << c << std::endl;
  RC_ASSERT(one.has_value() == by_plan.has_value());
  RC_ASSERT(!one || *one == *by_plan);
}

}  // namespace
}  // namespace plumbline::training_laws_test
