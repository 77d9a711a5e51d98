// Mixture of attention heads (JetMoE): experts make queries and take the output back, keys and values are everybody's.
//
// Source: JetMoE (arXiv 2404.07413, section 3.2) and modeling_jetmoe.py of Hugging Face transformers 5.17: a router picks
// experts a token, each expert a matrix hidden -> all key heads and one back.
#include <algorithm>
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/attention_core.hpp"
#include "ops/mixer/attention_memory.hpp"
#include "ops/mixer/table.hpp"
#include "ops/step/types.hpp"

namespace plumbline {
namespace {

struct AttentionExpertsSpec final : MixerOf<AttentionExpertsSpec> {
  std::int64_t experts = 0, topk = 0;
  std::int64_t kv_heads = 0, dim = 0;

  std::int64_t width() const { return kv_heads * dim; }
  bool operator==(const AttentionExpertsSpec&) const = default;
  std::string kind() const override { return "moa(" + std::to_string(topk) + " of " + std::to_string(experts) + ")"; }
  std::string_view block() const override { return "attention_experts"; }
  void sizes(MixerSizes& to) override {
    to.whole("experts", experts);
    to.whole("topk", topk);
    to.whole("kv_heads", kv_heads);
    to.whole("dim", dim);
  }
  /// Two matrices an expert, a router, keys and values; a bias behind the experts.
  ParamCount params(std::int64_t hidden) const override {
    const double h = d(hidden), w = d(width()), e = d(experts);
    return {2.0 * e * w * h + e * h + 2.0 * w * h, h};
  }
  double idle_params(std::int64_t hidden) const override { return 2.0 * d(experts - topk) * d(width()) * d(hidden); }
  double kv_elements() const override { return 2.0 * d(width()); }
  Bytes cache(const CacheQuery& query) const override {
    return storage(query.kv, query.tokens * 2.0 * d(lowering::ceil_div(kv_heads, query.tensor)) * d(dim));
  }
  AttentionWidths widths(double tensor) const {
    AttentionWidths n;
    n.heads = d(kv_heads) * d(topk) / tensor;
    n.q = n.out = n.heads * d(dim);
    n.kv = 2.0 * d(width()) / tensor;
    return n;
  }
  double stored(const MixerLoad& load) const override { return stored_attention(widths(load.tensor), load); }
  double live(const MixerLoad& load) const override { return live_attention(widths(load.tensor), load); }
  Bytes partials(double sequences, std::int64_t tensor) const override {
    return split_partials(sequences, d(lowering::ceil_div(kv_heads * topk, tensor)), dim);
  }
  std::int64_t split_heads() const override { return kv_heads; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array kAttentionExpertsWords{kFullAttention};

bool meant_attention_experts(const LlmConfig& config) { return config.is("jetmoe"); }

LayerMixer read_attention_experts(const LlmConfig& config, const LayerPlace&) {
  AttentionExpertsSpec a;
  a.experts = config.dim({"num_local_experts"}, "experts");
  a.topk = config.dim({"num_experts_per_tok"}, "experts a token");
  if (a.topk > a.experts) config.find({"num_experts_per_tok"})->fail("expected at most all experts");
  a.kv_heads = config.dim({"num_key_value_heads"}, "KV heads");
  a.dim = config.dim({"kv_channels"}, "head width");
  config.find({"num_attention_heads"});  // KV heads times experts a token
  config.product(config.product(a.kv_heads, a.dim, "kv_channels"), a.topk, "num_experts_per_tok");
  return a;
}

void AttentionExpertsSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local = s.share(kv_heads), out = local * dim, rows = s.tokens * topk;
  s.gemm("mixer_router"_node, s.tokens, experts, s.hidden, s.types.plain);
  s.add("mixer_topk"_node, TopK{s.tokens, experts, topk, s.types.base});
  s.linear("kv_proj"_node, s.tokens, 2 * out, s.hidden);
  if (!s.max()) s.add("mixer_permute"_node, MoePermute{s.tokens, topk, s.hidden, false, s.types.base});
  s.add("mixer_experts_q"_node, GroupedGemm{experts, topk, s.tokens, out, s.hidden, 1, s.types.linear});
  if (!s.max()) s.add("rope"_node, Rope{s.tokens, local * topk + 2 * local, dim, s.types.base});
  attention_core(s, {local * topk, local, dim, dim, s.q_len, s.kv_len, true, 0, false, s.decode,
                     s.max() && s.cache ? 1 : 0, s.kept()});
  s.add("mixer_experts_o"_node, GroupedGemm{experts, 1, rows, s.hidden, out, 1, s.types.linear});
  s.add("mixer_combine"_node, MoePermute{s.tokens, topk, s.hidden, true, s.types.base});
  s.all_reduce("attn_all_reduce"_node, "attn_reduce_scatter"_node, s.tokens);
}

}  // namespace

MixerKind attention_experts_mixer() {
  return {.words = kAttentionExpertsWords,
          .meant = meant_attention_experts,
          .read = read_attention_experts,
          .fresh = fresh_mixer<AttentionExpertsSpec>};
}

}  // namespace plumbline
