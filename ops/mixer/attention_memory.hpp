// What softmax attention of any form keeps in memory.
#pragma once

#include "ops/mixer/mixer.hpp"

namespace plumbline {

/// Elements a token: the query, key and value projections and the attention's result, on this rank.
struct AttentionWidths {
  double heads = 0, q = 0, kv = 0, out = 0;
  double extra = 0;  ///< latents
};

/// For the backward pass, after Korthikanti et al. (arXiv 2205.05198) section 4.1: 11 s b h + 5 a s^2 b, which is input
/// of QKV 2, Q and K 4, V 2, input of the output projection 2, mask 1; scores: softmax 2, its dropout mask 1, result 2.
/// Flash attention keeps one fp32 log-sum a query head instead of the scores.
double stored_attention(const AttentionWidths& widths, const MixerLoad& load);
/// Input, projections and result, in eager code the scores and their softmax.
double live_attention(const AttentionWidths& widths, const MixerLoad& load);
/// Split-KV decode holds fp32 partial results of all splits of a query head, values and their log-sum.
Bytes split_partials(double sequences, double heads, std::int64_t width);

}  // namespace plumbline
