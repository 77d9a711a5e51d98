// A rank's share of a step as its activations are counted (activations.cpp), and what one layer keeps of it.
#pragma once

#include <string_view>

#include "ops/as_double.hpp"
#include "ops/memory/parts.hpp"
#include "ops/memory/source_keeps.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {

/// Of an element of rows that are cast to fp8, with its part of their scales: fp32 of 128 elements, a byte of 32.
constexpr double cast_bytes(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::block ? 1 + 4.0 / 128 : recipe == Fp8Recipe::mx ? 1 + 1.0 / 32 : 1;
}

/// Of one stack of layers.
struct View {
  const Workload& w;
  const Types& types;
  double element;     ///< bytes of one activation
  double shards = 1;  ///< tensor ranks that the residual stream is split over, of whose tokens `hidden` is a share
  double hidden = 0, tokens = 0, q_len = 0, kv_len = 0, all_keys = 0, cross_tokens = 0, cross_len = 0;
  bool dropout = false;
  SourceKeeps source{};           ///< of eager code
  std::string_view activation{};  ///< what the model's source calls it
  bool eager() const { return w.phase == Phase::train && w.training.eager; }
  /// Bytes of what products keep of their inputs for the gradient of their weights: in fp8 the cast rows, which Transformer
  /// Engine keeps in their place by columns alone (update_usage(rowwise_usage=False, columnwise_usage=True) of
  /// transformer_engine/pytorch/module/linear.py, layernorm_linear.py and grouped_linear.py). Attention keeps its result by
  /// itself, which the output's product reads again (set_save_original_input(self.linear_proj) of Megatron-Core).
  double input_of_products() const { return casts_kept(types.linear) ? cast_bytes(w.training.fp8) : element; }
  double input_of_experts() const { return casts_kept(types.experts) ? cast_bytes(w.training.fp8) : of_experts(); }
  bool casts_kept(const Precision& p) const { return w.phase == Phase::train && !eager() && p.math == DType::fp8; }
  /// Of what is between experts' products: autocast leaves those in fp32 (data/launches/transformers-training.json).
  double of_experts() const { return autocast() ? 4 : element; }
  bool autocast() const { return eager() && w.training.autocast(types.base); }
  /// Bytes of a normalized element that an eager RMSNorm keeps: of heads, and of the residual stream, which autocast leaves
  /// in fp32.
  double normalized() const { return source.wide_norms || (source.norms_turned && autocast()) ? 4 : element; }
  double normalized_stream() const { return autocast() ? 4 : normalized(); }
  bool flash() const {
    const bool fused = w.fusion != Fusion::none || w.fused_attention;
    return fused && !(w.phase == Phase::train && w.training.written_out);
  }
  /// No scores are kept.
  bool no_scores() const {
    return flash() || (w.phase == Phase::train && w.training.recompute == Recompute::selective);
  }
  /// Bytes of each score where they are not what a mixer counts by itself: a stack's own, and what the source of the model
  /// keeps of the tangent that caps scores, or drops of them.
  double score_bytes() const {
    if (w.phase != Phase::train) return 0;
    if (w.training.score_bytes > 0 || !eager()) return w.training.score_bytes;
    if (source.bounds_scores && autocast()) return 8 + element + (dropout ? 1 : 0);
    if (source.bounds_scores) return 2 * element + (dropout ? 1 + element : 0);
    const double probabilities = narrow_softmax() && !autocast() ? element : 4 + element;
    return source.caps_scores ? element + probabilities : source.keeps_all_scores ? probabilities : 0;
  }
  double tp() const { return d(w.parallel.tensor); }
  /// In data-parallel attention a rank has a share of the sequences, and all heads.
  MixerLoad load() const {
    const bool decode = w.phase == Phase::decode, own = w.parallel.attention_data;
    const double sequences = own ? d(w.batch) / tp() : d(w.batch), mine = own ? tokens / tp() : tokens;
    return {mine,
            hidden,
            decode ? mine : sequences * all_keys,
            kv_len,
            element,
            own ? 1 : tp(),
            no_scores(),
            dropout,
            decode,
            w.fusion == Fusion::max,
            eager(),
            narrow_softmax() ? element : 4.0,
            normalized(),
            score_bytes(),
            input_of_products()};
  }
  bool narrow_softmax() const { return source.narrow_softmax || (source.softmax_as_scores && !autocast()); }
  /// Positions that are added to the scores (T5) lie head behind head and have a gradient: cuDNN's attention takes no mask
  /// with a gradient, no fused kernel one whose last dimension is strided (check_attn_mask_shape() and
  /// check_last_dim_stride_equals_1_dense() of sdp_utils_cpp.h), so that scaled_dot_product_attention writes the scores out,
  /// in fp32 (_scaled_dot_product_attention_math()).
  bool writes_scores_in_fp32() const { return eager() && source.biases_scores && flash(); }
  MixerLoad self_load() const {
    MixerLoad made = load();
    if (!writes_scores_in_fp32()) return made;
    made.flash = false;
    made.score_bytes = dropout ? 4 + 1 + 4 : 4;  // softmax, and what dropout makes of it
    return made;
  }
  MixerLoad cross_load() const {
    MixerLoad over_encoder = load();
    over_encoder.kv_tokens = cross_tokens;
    over_encoder.kv_len = cross_len;
    return over_encoder;
  }
};

View view_of(const Llm& llm, const Workload& workload, const Types& types, const StackSpec& stack);

/// Bytes, here and below, of what the backward pass reads: of a feed-forward part of `rows`, whose input is `in` wide.
/// `input_bytes` and `element`: of an element of its input, and of what else its products and its activation read.
double stored_dense(const FfnSpec& f, const View& v, double rows, double in, double width, double input_bytes,
                    double element);
double stored_ffn(const FfnSpec& f, const View& v);
double stored_norm(NormKind norm, const View& v, bool behind_product = false);
/// Of attention beside what its mixer counts, where PyTorch takes it apart.
double stored_scores(const LayerSpec& l, const View& v);
double stored_layer(const LayerSpec& l, const View& v);
/// Recompute::products: a layer's input, what attention keeps beside its own, and the first product of a dense part.
double stored_products(const LayerSpec& l, const View& v);

/// Ranks that share the width of an expert.
double expert_split(const FfnSpec& f, const View& v);
/// Rows that this rank's experts get: those of its own tokens in number where tokens travel, else its share of them.
double routed_rows(const FfnSpec& f, const View& v);

}  // namespace plumbline::lowering
