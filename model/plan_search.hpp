// Which parallel plan of N GPUs serves a model best: all that are legal, priced and ranked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/predict.hpp"
#include "ops/memory/fit.hpp"

namespace plumbline {

enum class PlanGoal {
  latency,       ///< of one step
  tokens_per_s,  ///< of all GPUs, which is by GPU too
  tokens_per_J
};

struct PlanQuestion {
  std::int64_t gpus = 1;
  PlanGoal goal = PlanGoal::latency;
  Bytes reserve;                        ///< of each GPU's memory, for the runtime
  std::optional<Seconds> most_latency;  ///< plans above it are dropped
  double least_tokens_per_s = 0;        ///< of all GPUs; so are plans below it
};

/// One plan that fits, as it was priced.
struct RankedPlan {
  ParallelPlan plan;
  std::int64_t micro_batches = 1;
  Seconds latency, low, high, network, bubble;
  double tokens_per_s = 0;
  std::optional<Joules> energy;
  double tokens = 0;
  std::optional<Watts> power;  ///< of a GPU
  Bytes memory;                ///< of the rank that holds most

  double tokens_per_J() const { return energy ? tokens / energy->in(units::J) : 0; }
};

struct PlanRanking {
  std::vector<RankedPlan> plans;  ///< best first
  std::int64_t legal = 0;         ///< plans that the model and the fabric allow
  std::int64_t too_large = 0;     ///< ... that do not fit in memory
  std::int64_t too_slow = 0;      ///< ... that fit and are slower than asked
  std::int64_t not_modelled = 0;  ///< ... that this program has no prices for
};

/// All (tp, pp, cp, dp, ep) with tp x pp x cp x dp = `gpus` that check() and the model allow, but those with more replicas
/// than sequences. The other choices of a plan (sequence parallelism, data-parallel attention) are `workload`'s, of plans with
/// several tensor ranks.
std::vector<ParallelPlan> legal_plans(const Llm& llm, const Workload& workload, std::int64_t gpus);

/// Of `workload.overlap` each plan has what it can. Ties are broken by fewer ways of splitting. Throws BadInput where the goal is tokens per joule and the card's energies
/// are not on file.
PlanRanking rank_plans(Predictor& predictor, const Llm& llm, const Workload& workload, const Machine& machine,
                       const RunOptions& options, const PlanQuestion& question);

}  // namespace plumbline
