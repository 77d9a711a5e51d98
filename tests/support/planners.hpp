// Asks the providers of a machine's stack for their plans and families, as the predictor does, without pricing.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "model/machine/parts.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/cublas/plan_gemm.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/stacks/own/plan_gemm.hpp"

namespace plumbline::testing_support {

/// Families of a provider of the machine's stack.
inline std::span<const FamilyScalars> families_of(const Machine& machine, std::string_view provider) {
  for (const StackedProvider& stacked : machine.parts()->origin->stack.providers) {
    if (stacked.provider->name() != provider) continue;
    return std::span(machine.rates().families).subspan(stacked.first_family, stacked.provider->families().size());
  }
  throw std::runtime_error("no " + std::string(provider) + " in this stack");
}

/// The scalars of a family by its name in calibrations: "library.gemm".
inline const FamilyScalars& scalars_of(const Machine& machine, std::string_view name) {
  const StackParts& stack = machine.parts()->origin->stack;
  for (const StackedProvider& stacked : stack.providers) {
    const std::string set = stacked.provider->set() == KernelSet::own ? "own." : "library.";
    const auto declared = stacked.provider->families();
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (set + declared[i].name == name) return machine.rates().families[stacked.first_family + i];
    }
  }
  throw std::runtime_error("no family " + std::string(name) + " in this stack");
}

/// What the first provider that has a kernel answers to cold operands.
inline AttentionChoice plan_attention(const Op& op, const Machine& machine, const AttentionPlan* as_cut = nullptr) {
  const Origin& origin = *machine.parts()->origin;
  const Work w = work(op);
  GemmCache cache;
  std::array<LaunchPrediction, Answer::kMostLaunches> launches;
  Answer answer(launches);
  Question question{.op = op,
                    .work = w,
                    .rates = machine.rates(),
                    .gpu = origin.gpu.name,
                    .appends = origin.stack.stack.prefill_appends,
                    .attention_plan = as_cut,
                    .cache = cache};
  for (const StackedProvider& stacked : origin.stack.providers) {
    if (!stacked.runs(op_name(op))) continue;
    question.families = std::span(machine.rates().families).subspan(stacked.first_family);
    if (stacked.provider->plan(question, answer)) break;
  }
  AttentionChoice choice;
  choice.plan = answer.attention_plan;
  choice.family = &answer.main();
  for (int i = 0; i < answer.count(); ++i) {
    const LaunchPrediction& l = launches[static_cast<std::size_t>(i)];
    if (std::string_view(l.kernel) == "rotate and append") {
      choice.prepares = true;
      choice.prepare = l.demand;
      choice.prepare_family = l.family;
    } else if (std::string_view(l.kernel) == "combine") {
      choice.combines = true;
      choice.combine = l.demand;
      choice.combine_family = l.family;
    } else {
      choice.main = l.demand;
    }
  }
  return choice;
}

/// A GEMM's task with the engine of ours that runs it, if one does.
inline GemmTask task_of(const Gemm& shape, const Machine& machine) {
  const Rates& m = machine.rates();
  GemmTask task = gemm_task(shape, m);
  if (machine.kernels() == KernelSet::own) task.engine = own_gemm_engine(shape, m, families_of(machine, "own"));
  if (task.engine ? task.engine == GemmEngine::mma_sync : !gemm::whole_units(task)) run_by_mma_sync(task, m);
  return task;
}

inline GemmChoice plan_gemm(const GemmTask& task, const Machine& machine, GemmCache& cache) {
  if (task.engine) return plan_own_gemm(task, machine.rates(), families_of(machine, "own"), cache);
  return plan_cublas_gemm(task, machine.rates(), families_of(machine, "cublas"), cache);
}

inline const FamilyScalars& gemm_family(const GemmTask& task, const Machine& machine) {
  if (!task.engine) {
    const auto families = families_of(machine, "cublas");
    return families[cublas::family_of(task, machine.rates(), families)];
  }
  return families_of(machine, "own")[*task.engine == GemmEngine::wgmma ? own::kGemm : own::kGemmPortable];
}

}  // namespace plumbline::testing_support
