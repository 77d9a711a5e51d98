#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast };
std::string_view name(CollectiveKind kind);

/// bytes = the larger buffer of one rank (nccl-tests' `size`).
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0, gpus = 1;
  DType dtype = DType::bf16;
  bool multicast = true;  ///< switches that copy and add may do so; false: as where a machine does not let them
  /// all_to_all: percent by which the busiest rank sends or receives more than their mean, whose buffers `bytes` says.
  double skew = 0;
  std::int64_t stride = 1;  ///< members of the group are every stride-th rank: 1 for neighbours
  /// Neighbouring ranks from the first member to the last.
  std::int64_t span() const { return (gpus - 1) * stride + 1; }
  bool operator==(const Collective&) const = default;
  static const Facts<Collective>& facts();
};

enum class ExpertExchangeKind { dispatch, combine };
std::string_view name(ExpertExchangeKind kind);

/// Tokens of one rank on their way to the ranks of their experts (dispatch), or what those made of them on its way back,
/// weighted and added up (combine). Each rank has as many tokens, each of which goes to `topk` of `experts` experts, which
/// are dealt out evenly to the ranks. Kernels that know where each token goes run it: an all-to-all knows parts of a buffer.
struct ExpertExchange {
  ExpertExchangeKind kind = ExpertExchangeKind::dispatch;
  std::int64_t tokens = 0;  ///< of a rank, before they are routed
  std::int64_t cols = 0;    ///< width of a token
  std::int64_t topk = 1, experts = 1, gpus = 1;
  /// SMs that it may take. 0: as one kernel of low latency, which sends each expert a copy of its own; else as kernels of
  /// high throughput, which send a token to each rank once.
  std::int64_t sms = 0;
  std::int64_t nodes = 0;  ///< that the experts of one token lie on at most; 0: on any
  /// The experts stand in `groups` groups, neighbours together, and those of one token in `top_groups` of them, any as
  /// likely as another (DeepSeek-V3, arXiv 2412.19437, section 2.1.2: node-limited routing). 0: in any.
  std::int64_t groups = 0, top_groups = 0;
  /// Percent by which the busiest rank sends or receives more than their mean.
  double skew = 0;
  DType dtype = DType::bf16;  ///< of the tokens under way; 8-bit and narrower ones have an fp32 scale for 128 elements
  bool operator==(const ExpertExchange&) const = default;
  static const Facts<ExpertExchange>& facts();
};

/// Of `groups` groups of equally many experts, how many at least one of a token's experts is in: expected, where all
/// experts are equally likely. Without putting back: groups (1 - C(E - E / groups, k) / C(E, k)).
double groups_reached(double experts, double topk, double groups);
/// Of `places` (ranks, nodes) that the experts are dealt out to in their order, how many a token goes to: expected, within
/// the groups that its experts are limited to. Places that hold parts of groups beside whole ones stand between the whole
/// numbers of groups next to theirs.
double places_reached(const ExpertExchange& exchange, double places);
/// Ranks that a token goes to, its own among them, with `per_node` ranks a node.
double ranks_reached(const ExpertExchange& exchange, double per_node);
/// One token under way, with its scales.
Bytes row_bytes(const ExpertExchange& exchange);

}  // namespace plumbline
