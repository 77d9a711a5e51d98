// Feed-forward part: dense, and mixture of experts with shared and latent experts.
//
// * none: gate and up are GEMMs of their own, activation and product are kernels; router scores pass through a softmax
//   of their own.
// * typical: one gate_up GEMM and one SwiGLU kernel. Experts are a router, a top-k (softmax fused), a permutation, a
//   grouped gate_up, SwiGLU, a grouped down projection and a combination (vLLM, SGLang, DeepGEMM).
// * max: the activation happens in the GEMM's epilogue, rows are gathered instead of permuted, the combination adds the
//   shared expert, and the producer quantizes. Gemm has no epilogue field: its result is counted before the activation.
#include <cmath>
#include <string>

#include "arch/error.hpp"
#include "ops/lower/parts.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {

const FfnNames kFfnNames{"ffn_quantize"_node,      "gate_up_proj"_node, "gate_proj"_node,
                         "up_proj"_node,           "ffn_act"_node,      "ffn_mul"_node.as(NodeRole::product),
                         "down_quantize"_node,     "down_proj"_node,    "ffn_all_reduce"_node,
                         "ffn_reduce_scatter"_node};
const FfnNames kSharedNames{"shared_quantize"_node,      "shared_gate_up_proj"_node,
                            "shared_gate_proj"_node,     "shared_up_proj"_node,
                            "shared_act"_node,           "shared_mul"_node.as(NodeRole::product),
                            "shared_down_quantize"_node, "shared_down_proj"_node,
                            "shared_all_reduce"_node,    "shared_reduce_scatter"_node};
const FfnNames kTextNames{"text_ffn_quantize"_node,  "text_gate_up_proj"_node,
                          "text_gate_proj"_node,     "text_up_proj"_node,
                          "text_ffn_act"_node,       "text_ffn_mul"_node.as(NodeRole::product),
                          "text_down_quantize"_node, "text_down_proj"_node,
                          "text_all_reduce"_node,    "text_reduce_scatter"_node};

namespace {

RowwiseKind kind_of(Activation activation) {
  switch (activation) {
    case Activation::silu: return RowwiseKind::silu;
    case Activation::gelu: return RowwiseKind::gelu;
    case Activation::relu: return RowwiseKind::relu;
    case Activation::relu2: return RowwiseKind::squared_relu;
  }
  throw BadInput("activation number " + std::to_string(static_cast<int>(activation)) + ": expected a known one");
}

/// From gate and up (or up alone) to the input of the down projection.
void activate(Step& s, const FfnSpec& f, std::int64_t rows, std::int64_t width, const FfnNames& names) {
  if (s.max()) return;
  if (f.gated && !s.none()) {
    s.row(names.act, RowwiseKind::swiglu, rows, width);
    return;
  }
  s.row(names.act, kind_of(f.activation), rows, width);
  if (f.gated) s.row(names.mul, RowwiseKind::add, rows, width);
}

constexpr FfnNames kExpertNames{"expert_quantize"_node,      "experts_gate_up"_node,
                                "experts_gate"_node,         "experts_up"_node,
                                "experts_act"_node,          "experts_mul"_node.as(NodeRole::product),
                                "expert_down_quantize"_node, "experts_down"_node,
                                "experts_all_reduce"_node,   "experts_reduce_scatter"_node};

/// Routed rows of the fullest rank, and its experts. Where ranks exchange tokens it receives, balanced, as many rows as it
/// sends: tokens x topk, each through one of its experts. Where tensor ranks hold the same tokens, each takes its part.
struct Routed {
  std::int64_t experts, topk, tokens, width, expert_width, rows;
  ExpertPlan plan;
};

std::int64_t scaled(std::int64_t rows, double by) {
  return by == 1 ? rows : static_cast<std::int64_t>(std::ceil(static_cast<double>(rows) * by));
}

Routed routed(const Step& s, const FfnSpec& f) {
  const ExpertPlan plan = expert_plan(s.workload, f);
  const std::int64_t width = f.latent > 0 ? f.latent : s.hidden, all = s.tokens * f.topk;
  if (plan.ranks == 1) return {f.experts, f.topk, s.tokens, width, s.share(f.expert_width), all, plan};
  const std::int64_t rows = scaled(plan.exchanged ? all : ceil_div(all, plan.ranks), plan.fullest);
  return {ceil_div(f.experts, plan.ranks), 1, rows, width, ceil_div(f.expert_width, plan.width_split), rows, plan};
}

void grouped(Step& s, NodeTag name, const Routed& r, std::int64_t n, std::int64_t k) {
  GroupedGemm product{r.experts, r.topk, r.tokens, n, k, r.plan.skew, s.types.experts};
  product.block = s.types.block_of(s.types.experts);
  s.add(name, product);
}

/// Every routed row of the down projection is its own: `rows` tokens through one expert each (GroupedGemm's comment).
/// With few rows that form expects too few experts to be touched (Mixtral at batch 1: 1.88, not 2) and the weights are
/// nearly all of the bytes, so there the form of the up projection stays.
Routed down_rows(const Routed& r) {
  Routed down = r;
  if (r.rows >= 4 * r.experts) {
    down.tokens = r.rows;
    down.topk = 1;
  }
  return down;
}

/// Kernels that know each token's experts bring tokens from rank to rank.
bool by_token(const Step& s, const Routed& r) { return r.plan.exchanged && s.workload.exchange_sms > 0; }
/// ... those of low latency, which put them in the order of experts too, and quantize them.
bool in_order_of_experts(const Step& s, const Routed& r) { return by_token(s, r) && s.decode; }

void exchange_tokens(Step& s, NodeTag name, const FfnSpec& f, const Routed& r, ExpertExchangeKind kind, DType type) {
  ExpertExchange e;
  e.kind = kind;
  e.tokens = s.tokens;
  e.cols = r.width;
  e.topk = f.topk;
  e.experts = std::max(f.experts, r.plan.ranks);
  e.gpus = r.plan.ranks;
  e.sms = s.decode ? 0 : s.workload.exchange_sms;
  e.skew = std::min(100.0, 100 * (r.plan.fullest - 1));
  e.groups = f.groups;
  e.top_groups = f.top_groups;
  e.dtype = type;
  s.add(name, e, 1);
}

void exchange(Step& s, NodeTag name, const Routed& r, DType type) {
  if (!r.plan.exchanged) return;
  const Bytes bytes = storage(type, static_cast<double>(r.rows) * static_cast<double>(r.width));
  s.collective(name, CollectiveKind::all_to_all, bytes, type, r.plan.ranks);
}

/// Rows that a rank brings into the order of its experts, and back: those that it sends, or those of its own experts.
MoePermute permutation(const Step& s, const FfnSpec& f, const Routed& r, bool combine, DType type) {
  const bool part = r.plan.ranks > 1 && !r.plan.exchanged;
  return {part ? r.rows : s.tokens, part ? 1 : f.topk, r.width, combine, type};
}

void route(Step& s, const FfnSpec& f) {
  // The shared expert's gate is one more column of the router; eager code multiplies by it apart.
  const bool gate = f.shared_gate && f.shared_width > 0;
  s.gemm("router"_node, s.tokens, f.experts + f.identities + (gate && !s.none() ? 1 : 0),
         f.router_width > 0 ? f.router_width : s.hidden, s.types.plain);
  if (s.none() && gate) s.gemm("shared_gate"_node, s.tokens, 1, s.hidden, s.types.plain);
  if (s.none()) s.row("router_softmax"_node, RowwiseKind::softmax, s.tokens, f.experts + f.identities);
  s.add("router_topk"_node, TopK{s.tokens, f.experts + f.identities, f.topk, s.types.base});
}

void experts(Step& s, const FfnSpec& f) {
  const Routed r = routed(s, f);
  // in training rows travel as they are and are cast where they arrive (Megatron-Core, Transformer Engine's grouped layers)
  const bool narrow = !s.train() && s.types.quantizes(s.types.experts);
  // which goes to other ranks as it is, too (TensorRT-LLM's CutlassFusedMoE)
  const bool behind =
      narrow && s.workload.rounds_routed_rows && s.types.block_of(s.types.experts) > 0 && !by_token(s, r);
  const DType moved = narrow && !behind ? s.types.experts.input : s.types.base;
  if (f.latent > 0) {
    s.quantize("latent_down_quantize"_node, s.tokens, s.hidden, s.types.linear);
    s.linear("latent_down"_node, s.tokens, f.latent, s.hidden);
  }
  if (!in_order_of_experts(s, r) && !s.train() && !behind) {
    s.quantize(kExpertNames.quantize, s.tokens, r.width, s.types.experts);
  }
  if (by_token(s, r)) exchange_tokens(s, "moe_dispatch"_node, f, r, ExpertExchangeKind::dispatch, moved);
  if (!s.max() && !in_order_of_experts(s, r)) s.add("moe_permute"_node, permutation(s, f, r, false, moved));
  if (!by_token(s, r)) exchange(s, "moe_dispatch"_node, r, moved);
  // rows come by the ranks that sent them, of each in the order of experts (Megatron-Core's sort_chunks_by_idxs)
  const bool by_rank = s.train() && r.plan.exchanged && !by_token(s, r) && r.experts > 1;
  const MoePermute sort{r.rows, 1, r.width, false, moved};
  if (by_rank) s.add("moe_sort"_node, sort);
  if (s.train() || behind) s.quantize(kExpertNames.quantize, r.rows, r.width, s.types.experts);
  if (!f.gated || s.none()) {
    if (f.gated) grouped(s, kExpertNames.gate, r, r.expert_width, r.width);
    // a name of its own where frameworks' launches are by name: they run a gate and what it gates as one product
    const bool alone = !f.gated && s.none();
    grouped(s, alone ? "experts_up_alone"_node : kExpertNames.up, r, r.expert_width, r.width);
  } else {
    grouped(s, kExpertNames.gate_up, r, 2 * r.expert_width, r.width);
  }
  activate(s, f, r.rows, r.expert_width, kExpertNames);
  s.quantize(kExpertNames.down_quantize, r.rows, r.expert_width, s.types.experts);
  grouped(s, kExpertNames.down, down_rows(r), r.width, r.expert_width);
  if (by_rank) s.add("moe_unsort"_node, sort);
  if (!by_token(s, r)) exchange(s, "moe_collect"_node, r, s.types.base);
}

/// Back in the order of tokens, each one's rows weighted and added up: on its own rank behind the exchange; or, by kernels
/// that know the tokens, first those of a rank's experts, and on their way all ranks'; or in those kernels alone.
void combine(Step& s, const FfnSpec& f) {
  const Routed r = routed(s, f);
  if (!in_order_of_experts(s, r)) s.add("moe_combine"_node, permutation(s, f, r, true, s.types.base));
  if (by_token(s, r)) exchange_tokens(s, "moe_collect"_node, f, r, ExpertExchangeKind::combine, s.types.base);
  if (f.latent == 0) return;
  s.quantize("latent_up_quantize"_node, s.tokens, f.latent, s.types.linear);
  s.linear("latent_up"_node, s.tokens, s.hidden, f.latent);
}

/// What compresses the weights of a dense FFN, where they are trained 2:4 sparse.
constexpr NodeTag kPruneUp = "up_prune"_node, kPruneGate = "gate_prune"_node, kPruneDown = "down_prune"_node;

}  // namespace

void dense_ffn(Step& s, const FfnSpec& f, std::int64_t width, const FfnNames& names) {
  const std::int64_t own = s.share(width);
  s.quantize(names.quantize, s.tokens, s.hidden, s.types.linear);
  if (f.gated && !s.none()) {
    s.ffn_linear(kPruneUp, names.gate_up, s.tokens, 2 * own, s.hidden, f.bias);
    s.joins({own, own});
  } else {
    if (f.gated) s.ffn_linear(kPruneGate, names.gate, s.tokens, own, s.hidden, f.bias);
    s.ffn_linear(kPruneUp, names.up, s.tokens, own, s.hidden, f.bias);
  }
  activate(s, f, s.tokens, own, names);
  if (f.inner_norm && !s.max()) s.norm("ffn_sub_norm"_node, NormKind::rms, s.tokens, own);
  s.quantize(names.down_quantize, s.tokens, own, s.types.linear);
  s.ffn_linear(kPruneDown, names.down, s.tokens, s.hidden, own, f.bias);
}

namespace {

/// The shared expert is a branch beside the routed ones: it waits for the norm only, and the add (or, at `max`, the
/// combine) waits for both.
void mixture(Step& s, const FfnSpec& f) {
  const int entry = s.last;
  const std::int64_t beside = f.shared_width + f.width;  // a dense FFN beside the experts (Arctic) is a shared expert
  int shared = -1;
  if (beside > 0) {
    dense_ffn(s, f, beside, kSharedNames);
    shared = s.last;
    s.last = entry;
  }
  route(s, f);
  experts(s, f);
  // the combination can add the shared expert where it is a kernel of this rank, not one that tokens come back by
  const bool fused_add = s.max() && !by_token(s, routed(s, f));
  if (fused_add) s.join = shared;
  combine(s, f);
  if (beside > 0 && !fused_add) {
    s.join = shared;
    s.row("shared_add"_node, RowwiseKind::add, s.tokens, s.hidden);
  }
  s.all_reduce(kExpertNames.reduce, kExpertNames.scatter, s.tokens);
}

}  // namespace

void ffn(Step& s, const FfnSpec& f) {
  if (!f.is_moe()) {
    return s.on_replica("ffn_all_gather"_node, [&] {
      dense_ffn(s, f, f.width, kFfnNames);
      s.all_reduce(kFfnNames.reduce, kFfnNames.scatter, s.tokens);
    });
  }
  if (!expert_plan(s.workload, f).exchanged) {
    return s.on_replica(
        "moe_all_gather"_node, [&] { mixture(s, f); }, false);  // the router and the experts read it
  }
  s.tensor = 1;  // each rank's own tokens, through whole experts wherever they live
  mixture(s, f);
  s.tensor = s.workload.parallel.tensor;
}

}  // namespace plumbline::lowering
