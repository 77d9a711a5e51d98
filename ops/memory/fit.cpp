#include "ops/memory/fit.hpp"

#include <algorithm>

#include "ops/memory/memory.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;  // as check(Workload) has it

/// The largest number up to `most` that holds, where whatever is smaller than one that holds does too; 0 for none,
/// nothing where `most` holds.
template <class Holds>
std::optional<std::int64_t> largest(std::int64_t most, Holds holds) {
  if (holds(most)) return std::nullopt;
  std::int64_t good = 0, bad = most;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

/// GPUs of the smallest plan of tensor ranks and stages that holds it; experts are split as the tensor ranks are.
template <class Holds>
std::optional<std::int64_t> fewest_gpus(const Llm& llm, const Workload& workload, Holds holds) {
  Workload w = workload;
  for (std::int64_t gpus = 1; gpus <= Fit::kMostGpus; ++gpus) {
    for (std::int64_t tensor = gpus; tensor >= 1; --tensor) {
      if (gpus % tensor != 0) continue;
      w.parallel = ParallelPlan{};
      w.parallel.tensor = tensor;
      w.parallel.pipeline = gpus / tensor;
      if (lowering::allowed(llm, w) && holds(w)) return gpus;
    }
  }
  return std::nullopt;
}

std::int64_t& length_of(Workload& w) { return w.phase == Phase::decode ? w.context : w.prompt; }

std::optional<std::int64_t> smaller(const std::optional<std::int64_t>& a, const std::optional<std::int64_t>& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

Fit fit_of(const Llm& llm, const Workload& workload, Bytes capacity, Bytes reserve) {
  Fit fit;
  fit.capacity = capacity;
  fit.reserve = reserve;
  const auto holds = [&](const Workload& w) { return memory_need(llm, w).total() <= capacity - reserve; };
  fit.fits = holds(workload);
  Workload w = workload;
  const std::int64_t tokens = w.phase == Phase::decode ? w.context + 1 : w.cached + w.prompt;
  fit.max_batch = largest(kMostTokens / std::max<std::int64_t>(1, tokens), [&](std::int64_t batch) {
    w.batch = batch;
    return holds(w);
  });
  w = workload;
  fit.max_context = largest(kMostTokens / w.batch - 1 - w.cached, [&](std::int64_t length) {
    length_of(w) = length;
    return holds(w);
  });
  if (fit.max_context && *fit.max_context > 0) *fit.max_context += w.cached;
  fit.fewest_gpus = fewest_gpus(llm, workload, holds);
  return fit;
}

Fit both(const Fit& a, const Fit& b) {
  Fit fit = a;
  fit.fits = a.fits && b.fits;
  fit.max_batch = smaller(a.max_batch, b.max_batch);
  fit.max_context = smaller(a.max_context, b.max_context);
  fit.fewest_gpus.reset();
  if (a.fewest_gpus && b.fewest_gpus) fit.fewest_gpus = std::max(*a.fewest_gpus, *b.fewest_gpus);
  return fit;
}

}  // namespace plumbline
