// What the sources of transformers' models make autograd keep, where a config does not say it: which projections are one
// matrix (ops/resolve/joined_matrices.hpp), which norms and activations are written out operator by operator, and in which types.
#pragma once

#include <string_view>

#include "ops/llm/llm.hpp"

namespace plumbline::lowering {

/// What autograd keeps of an element of an activation's input beside that input and the result, which the next product reads.
struct ActivationKeeps {
  double elements = 0;       ///< in the layers' type; -1: its gradient reads its result, or nothing, and the input goes
  double in_fp32 = 0;        ///< of 4 bytes each
  double masks = 0;          ///< of one byte each
  bool wide_result = false;  ///< its result is in fp32: what a gate multiplies it with keeps it so
};

/// By the name that the model's source has for it; by its kind where nobody says a name.
ActivationKeeps activation_keeps(std::string_view name, Activation kind, bool autocast);

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
  bool wide_scores = false;         ///< written out, its scores are a product of queries and keys in fp32
  bool norms_turned = false;        ///< norms of heads stand behind the rotation, which autocast leaves in fp32
  bool narrow_softmax = false;      ///< scores are not cast to fp32
  bool softmax_as_scores = false;   ///< softmax has its scores' type, which fp32 masks make fp32 under autocast
  bool bounds_scores = false;       ///< keeps the scores that a maximum() read, beside their softmax (XGLM)
  /// Rows in front of a router are multiplied with random numbers, by the block and by the router, as published configs ask for
  /// (Phi's input_jitter_noise of 0.01; its class says 0).
  bool jitters_rows = false;
  bool clamps_gate = false;  ///< experts' activations are written out: gate and up clamped, sigmoid, up + 1 (gpt-oss)
  bool scores_distances = false;  ///< adds products with a table of distances, gathered by them (DeBERTa)
  bool caps_scores = false;       ///< attention that is written out keeps what its tangent made (Gemma 2)
  bool keeps_all_scores = false;  ///< published configs drop nothing from the scores, though they drop elsewhere (OPT)
  bool biases_scores =
      false;  ///< adds positions to the scores: no fused kernel takes such a bias with its gradient (T5)
  bool keeps_embedding = false;  ///< drops nothing of what is looked up, though it drops elsewhere
  bool keeps_mixed = false;      ///< adds what attention's output projection makes as it is (DistilBERT)
  bool keeps_fed = false;        ///< and what its feed-forward part makes (ALBERT)
  int outer_norms = 1;           ///< norms of a stack that stand around its layers (mBART: one in front and one behind)
  /// An encoder in front of a decoder norms and drops what it looks up, as the decoder does (BART).
  bool ends_of_encoder = false;
  bool biases_logits = false;  ///< with a buffer of fp32, which makes them fp32 under autocast
  /// The keys of a single head are broadcast over those of the queries, which no fused kernel takes (Falcon).
  bool broadcasts_keys = false;
  bool routes_in_fp32 = false;  ///< rows are cast to fp32 before the router multiplies them
};

SourceKeeps source_keeps(const Llm& llm);

}  // namespace plumbline::lowering
