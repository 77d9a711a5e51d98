// What GEMM planners are asked, what they answer, and what they keep between questions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "arch/dtype.hpp"
#include "model/engine/demand.hpp"
#include "ops/plan/plans.hpp"

namespace plumbline {

/// What is multiplied with what: one product, one with 2:4 sparse weights, one product an expert.
enum class GemmKind : std::uint8_t { dense, sparse24, grouped };

/// y[M,N] = x[M,K] W[N,K]^T, or x[M,K] W[K,N], as the planner needs it: sizes plus bytes per element of each operand.
struct GemmTask {
  GemmKind kind = GemmKind::dense;
  DType math = DType::bf16;
  std::optional<GemmEngine> engine;  ///< that the provider chose, of a menu with several; else empty
  double m = 0, n = 0, k = 0, batch = 1;
  double input_bytes = 2, weight_bytes = 2, output_bytes = 2;
  double tensor_flop_per_clk = 0;  ///< of one SM, for the maths format
  double dequant_per_weight = 0;   ///< fp32-pipe operations to unpack one weight (W4A16), but for mma.sync
  double slots_per_weight = 0;     ///< instructions of a lane to unpack one weight for mma.sync
  double weight_kept = 1;    ///< bytes of the weight operand / dense (2:4 sparse: 0.5625 with metadata at 16 bits)
  double weights_read = 1;   ///< weight operands that DRAM carries / batch (experts expected, not a whole number)
  double bias_bytes = 0;     ///< of one batch entry, and of what the product is added to
  bool weights_kn = false;   ///< rows of N elements: W[K,N]
  bool inputs_km = false;    ///< rows of M elements: x[K,M]
  bool adds = false;         ///< to what the result holds
  std::int64_t block = 0;    ///< of scales, as Gemm::block
  bool by_mma_sync = false;  ///< kernels of mma.sync and cp.async, whatever else the card has
  bool few_tiles = false;    ///< a library whose kernels for wgmma have tiles of powers of two alone
  /// The plan is chosen by its time as the product is priced alone, at the clock that its power leaves (where the
  /// rates have power scalars): FLOPs that count for power; 0: by its time at the clock of the rates.
  double alone_flops = 0;

  bool operator==(const GemmTask&) const = default;
};

struct GemmChoice {
  GemmPlan plan;
  Demand main;
  Demand reduce;  ///< the split-K reduction, if it is a launch of its own
  bool reduces = false;
  Seconds total;
};

/// What GEMM planners keep between questions about one machine: answers of its last searches (sweeps ask for the
/// same GEMM again and again: a context sweep changes none of a decode step's), the menus of the last few precisions,
/// and the search's own storage. Answers do not depend on it. Not for several threads at once; nor for another machine,
/// unless it is cleared.
class GemmCache {
 public:
  GemmCache();
  ~GemmCache();
  GemmCache(GemmCache&&) noexcept;
  GemmCache& operator=(GemmCache&&) noexcept;
  void clear();

  struct State;  ///< model/stacks/common/gemm_cache.hpp
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace plumbline
