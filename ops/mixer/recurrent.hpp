// What recurrent mixers share: a causal convolution, a state that is read and written each step, a gated norm.
//
// Sources: mamba_ssm (state-spaces/mamba: modules/mamba_simple.py, mamba2.py), Qwen3-Next's gated delta net
// (transformers, modeling_qwen3_next.py); widths as in docs/sources.md: models.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/config/config.hpp"
#include "ops/mixer/mixer.hpp"
#include "ops/step/step.hpp"

namespace plumbline {

/// The recurrent state is kept in fp32 unless the file says otherwise (mamba_ssm_dtype, mamba_ssm_cache_dtype).
DType read_state_dtype(const LlmConfig& config);

/// Layers of Mamba among layers of attention: a period with an offset (Jamba), or the indices of the others (Bamba).
std::optional<std::vector<bool>> mamba_places(const LlmConfig& config, std::int64_t layers);

/// Widths of a recurrent mixer, whole model.
struct StateWidths {
  double inner = 0;   ///< values: heads x width
  double state = 0;   ///< elements a value keeps
  double beside = 0;  ///< channels that go through the convolution beside the values
  double conv = 0;    ///< length of the convolution
  DType type = DType::fp32;
};

/// A matrix of head width x state a head, and the last conv - 1 inputs of the convolution.
Bytes state_cache(const StateWidths& widths, const CacheQuery& query);
/// For the backward pass: input of the projections, their result (all that convolution, recurrence and gate read;
/// `mixed` of it beside the values), the output before and after the gate, and the fp32 state at every chunk.
double stored_recurrence(const StateWidths& widths, double mixed, const MixerLoad& load);
double live_recurrence(const StateWidths& widths, const MixerLoad& load);
inline constexpr SegmentNames kRecurrentSegment{"recurrent_layer", "recurrent_moe_layer"};

namespace lowering {

void causal_conv(Step& s, std::int64_t taps, std::int64_t channels);
/// norm(y * silu(z)): reads two, writes one, which is what a SwiGLU kernel moves; three kernels in eager code.
void gated_norm(Step& s, std::int64_t rows, std::int64_t cols, bool norm);
void out_projection(Step& s, std::int64_t width, bool bias = false);

}  // namespace lowering
}  // namespace plumbline
