// T5Gemma (arXiv 2504.06225): two Gemma 2, one that reads on both sides and one with cross attention in every layer.
// Source: modeling_t5gemma.py of Hugging Face transformers 5.17.
#include <utility>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

StackSpec gemma_stack(const LlmConfig& config, const LlmConfig* encoder) {
  StackSpec stack;
  stack.role = encoder != nullptr ? StackSpec::Role::decoder : StackSpec::Role::encoder;
  stack.hidden = config.dim({"hidden_size"}, "hidden width");
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  const std::vector<std::string_view> words = layer_words(config, layers);
  LayerSpec layer;
  layer.ffn = read_dense_ffn(config, stack.hidden);
  layer.norms = encoder != nullptr ? 6 : 4;
  if (encoder != nullptr) {
    AttentionSpec across = read_attention(config, stack.hidden);
    across.causal = across.rope = false;
    layer.cross = CrossAttentionSpec(across);
    if (encoder->dim({"hidden_size"}, "hidden width") != stack.hidden) {
      config.inner().at("hidden_size").fail("expected the encoder's width, which cross attention reads");
    }
    config.find({"cross_attention_hidden_size"});
  }
  for (std::int64_t i = 0; i < layers; ++i) {
    layer.mixer = read_mixer(config, {words[static_cast<std::size_t>(i)], stack.hidden, i, layers});
    if (encoder == nullptr) layer.mixer.edit<AttentionSpec>().causal = false;
    append_layer(stack, layer);
  }
  stack.other_params = d(stack.hidden);
  return stack;
}

void check_keys(const LlmConfig& config) {
  for (const auto& unknown : {config.unknown_keys(1), config.unknown_switches(1), config.unknown_parts(1)}) {
    if (!unknown.empty()) config.inner().at(unknown.front()).fail("a key that is not known");
  }
}

}  // namespace

void build_t5gemma(const LlmConfig& config, Llm& llm) {
  const auto reads = config.find_object({"encoder"}), writes = config.find_object({"decoder"});
  if (!reads || !writes) config.inner().fail("missing 'encoder' or 'decoder', which say what each half is");
  const LlmConfig encoder(*reads, *reads, config.family()), decoder(*writes, *writes, config.family());
  llm.hidden = decoder.dim({"hidden_size"}, "hidden width");
  llm.vocab = decoder.maybe_dim({"vocab_size"}).value_or(config.dim_or({"vocab_size"}, 256000));
  llm.max_context = decoder.count_or({"max_position_embeddings"}, 0);
  llm.tied_embeddings = config.flag_or({"tie_word_embeddings"}, true);
  read_dtype(config, llm);
  llm.stacks.push_back(gemma_stack(decoder, &encoder));
  llm.stacks.push_back(gemma_stack(encoder, nullptr));
  llm.stacks.back().other_params += d(encoder.dim_or({"vocab_size"}, llm.vocab)) * d(llm.stacks.back().hidden);
  decoder.find({"vocab_size"});
  for (const LlmConfig* half : {&encoder, &decoder}) {
    half->find({"tie_word_embeddings"});
    check_keys(*half);
    for (const std::string& sentence : half->assumptions()) config.assume(sentence);
  }
}

}  // namespace plumbline
