// What the sources of transformers' models make autograd keep, where a config does not say it: which projections are one
// matrix (ops/resolve/joined_matrices.hpp), which norms and activations are written out operator by operator, and in which types.
#pragma once

#include "ops/llm/llm.hpp"

namespace plumbline::lowering {

struct SourceKeeps {
  bool joined_queries = false, joined_gate = false;
  /// Queries, keys and values are views of the joined result, which stays whole as long as the values do.
  bool views = false;
  bool turns_part = false;          ///< queries are joined of a part that is rotated and the rest
  bool wide_norms = false;          ///< an RMSNorm multiplies by its weights in fp32
  bool wide_centred_norms = false;  ///< a norm subtracts its mean in fp32, written out (CohereLayerNorm)
  bool wide_layernorm = false;      ///< its LayerNorm casts to fp32 (OLMo)
  bool casts_layernorm = false;     ///< under autocast its LayerNorm casts to the narrow type (Nemotron)
  bool norms_behind = false;        ///< all norms of a layer stand behind its products
  bool biases_each_layer = false;   ///< and each layer has a bias of its own (UMT5)
  bool norms_stream = false;        ///< an RMSNorm multiplies the row that it read, not its cast (T5LayerNorm)
  bool narrow_softmax = false;      ///< scores are not cast to fp32
  bool gelu_written_out = false;    ///< NewGELUActivation
  bool caps_scores = false;         ///< attention that is written out keeps what its tangent made (Gemma 2)
  bool keeps_all_scores = false;  ///< published configs drop nothing from the scores, though they drop elsewhere (OPT)
  bool biases_scores =
      false;  ///< adds positions to the scores: no fused kernel takes such a bias with its gradient (T5)
  bool keeps_embedding = false;  ///< drops nothing of what is looked up, though it drops elsewhere
  /// The keys of a single head are broadcast over those of the queries, which no fused kernel takes (Falcon).
  bool broadcasts_keys = false;
};

SourceKeeps source_keeps(const Llm& llm);

}  // namespace plumbline::lowering
