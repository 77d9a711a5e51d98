#include "ops/mixer/shared_block.hpp"

#include "ops/as_double.hpp"
#include "ops/step/step.hpp"

namespace plumbline {

SharedBlockSpec read_shared_block(const LlmConfig& config, std::int64_t hidden) {
  SharedBlockSpec b;
  b.wide = config.dim_or({"attention_hidden_size"}, config.product(hidden, 2, "hidden_size"));
  if (b.wide != 2 * hidden) config.find({"attention_hidden_size"})->fail("expected twice the hidden width");
  AttentionSpec& a = b.attention;
  a.q_heads = config.dim({"num_attention_heads"}, "attention heads");
  a.kv_heads = config.dim_or({"num_key_value_heads"}, a.q_heads);
  if (a.q_heads % a.kv_heads != 0) {
    config.find({"num_key_value_heads"})
        ->fail("expected a divisor of the " + std::to_string(a.q_heads) + " query heads");
  }
  a.qk_dim = a.v_dim = config.dim_or({"attention_head_dim", "head_dim"}, b.wide / a.q_heads);
  config.product(a.q_heads, a.qk_dim, "num_attention_heads");
  a.rope = config.flag_or({"use_mem_rope"}, false);
  config.flag_or({"use_long_context"}, false);
  b.ffn_width = config.dim_or({"intermediate_size"}, config.product(hidden, 4, "hidden_size"));
  b.ffn_bias = config.flag_or({"add_bias_linear"}, false);
  if (config.is("zamba2")) {
    b.adapter = config.dim_or({"adapter_rank"}, 128);
    if (config.flag_or({"use_shared_attention_adapter"}, false)) b.attention_adapter = b.adapter;
  }
  config.find({"ffn_hidden_size"});  // as intermediate_size, which the class reads
  config.find({"kv_channels", "num_query_groups"});
  config.find({"num_query_groups"});
  return b;
}

ParamCount SharedBlockSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), r = d(adapter);
  return {h * h + r * h + r * 2.0 * d(ffn_width) + 6.0 * d(attention_adapter) * d(wide), 0};
}

ParamCount SharedBlockSpec::shared_params(std::int64_t hidden) const {
  const double h = d(hidden), w = d(wide), q = d(attention.q_heads) * d(attention.qk_dim);
  const double kv = d(attention.kv_heads) * d(attention.qk_dim), f = d(ffn_width);
  return {w * (q + 2.0 * kv) + q * h + 3.0 * h * f, w + h + (ffn_bias ? 2.0 * f + h : 0.0)};
}

double SharedBlockSpec::stored(const MixerLoad& load) const {
  return attention.stored(load) +
         load.tokens * load.element * (d(wide) + load.hidden + 3.0 * d(ffn_width) / load.tensor);
}

double SharedBlockSpec::live(const MixerLoad& load) const { return attention.live(load) + load.tokens * d(wide); }

void SharedBlockSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t hidden = s.hidden, own = s.share(ffn_width);
  s.copy("concat_embedding"_node, s.tokens, wide);
  s.norm("attn_norm"_node, NormKind::rms, s.tokens, wide);
  if (attention_adapter > 0) {
    s.linear("qkv_adapter_down"_node, s.tokens, 3 * attention_adapter, wide);
    s.linear("qkv_adapter_up"_node, s.tokens, 3 * wide, attention_adapter);
  }
  // The attention's projections read the wide input; its output projection writes the hidden width, half of it.
  s.hidden = wide;
  AttentionSpec inner = attention;
  inner.lower_inputs(s);
  s.hidden = hidden;
  inner.lower_output(s);
  s.norm("ffn_norm"_node, NormKind::rms, s.tokens, hidden);
  s.linear("gate_up_proj"_node, s.tokens, 2 * own, hidden, ffn_bias);
  if (adapter > 0) {
    s.linear("adapter_down"_node, s.tokens, adapter, hidden);
    s.linear("adapter_up"_node, s.tokens, 2 * own, adapter);
  }
  s.row("ffn_act"_node, RowwiseKind::swiglu, s.tokens, own);
  s.linear("down_proj"_node, s.tokens, hidden, own, ffn_bias);
  s.all_reduce("ffn_all_reduce"_node, "ffn_reduce_scatter"_node, s.tokens);
  s.linear("block_proj"_node, s.tokens, hidden, hidden);
}

void SharedBlockSpec::sizes(MixerSizes& to) {
  attention.sizes(to);
  to.whole("wide", wide);
  to.whole("ffn_width", ffn_width);
  to.flag("ffn_bias", ffn_bias);
  to.whole("adapter", adapter);
  to.whole("attention_adapter", attention_adapter);
}

}  // namespace plumbline
