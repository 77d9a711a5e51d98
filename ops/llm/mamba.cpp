// Models of nothing but Mamba layers, and Nemotron-H's pattern of letters.
#include <algorithm>
#include <string>

#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/shared_block.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kMamba = "mamba";

std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

/// The vocabulary padded as state-spaces' MambaLMHeadModel does before it makes the embedding.
void pad_vocabulary(const LlmConfig& config, Llm& llm) {
  if (const auto multiple = config.maybe_dim({"pad_vocab_size_multiple"})) llm.vocab = rounded_up(llm.vocab, *multiple);
}

}  // namespace

/// Mamba and Mamba-2 alone: a norm and a mixer a layer, no FFN. The native layout has its keys under `ssm_cfg`.
void build_mamba(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, true);
  pad_vocabulary(config, llm);
  config.find({"intermediate_size"});  // the class works it out of `expand`
  config.find({"d_model"});
  config.find({"d_inner"});
  auto native = config.find_object({"ssm_cfg"});
  if (native && native->size() == 0 && config.has({"state_size"})) native.reset();  // converted files keep it empty
  const auto attention = config.find({"attn_layer_idx"});
  if (attention && attention->size() > 0)
    attention->fail("attention layers between Mamba layers are not understood here");
  if (config.count_or({"d_intermediate"}, 0) > 0) {
    config.find({"d_intermediate"})->fail("an MLP in every Mamba layer is not understood here");
  }
  LayerSpec layer;
  layer.norms = 1;
  if (native) {
    layer.mixer = read_mixer(LlmConfig(*native, *native, config.family()), {kMamba, llm.hidden});
  } else {
    layer.mixer = read_mixer(config, {kMamba, llm.hidden});
  }
  StackSpec stack;
  stack.hidden = llm.hidden;
  const std::int64_t layers = config.layers({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  stack.other_params = static_cast<double>(llm.hidden);
  llm.stacks.push_back(std::move(stack));
}

namespace {

/// Zamba's older files say the places of hybrid layers by a period and an offset (ZambaConfig of transformers).
std::vector<bool> hybrid_layers(const LlmConfig& config, std::int64_t layers) {
  std::vector<bool> hybrid(static_cast<std::size_t>(layers), false);
  const auto list = config.find({"layers_block_type", "layer_types"});
  const auto ids = config.find({"hybrid_layer_ids"});
  const std::int64_t period = config.dim_or({"attn_layer_period"}, 6),
                     offset = config.count_or({"attn_layer_offset"}, 4);
  if (list) {
    const auto words = list->elements();
    if (static_cast<std::int64_t>(words.size()) < layers) list->fail("expected one entry a layer");
    for (std::size_t i = 0; i < hybrid.size(); ++i) {
      const std::string word = words[i].as_string();
      if (word != "hybrid" && word != "mamba" && word != "linear_attention") {
        words[i].fail("expected hybrid or mamba, found '" + word + "'");
      }
      hybrid[i] = word == "hybrid";
    }
  } else if (ids) {
    for (const JsonValue& id : ids->elements())
      hybrid[static_cast<std::size_t>(integer_within(id, 0, layers - 1))] = true;
  } else if (config.is("zamba")) {
    for (std::int64_t i = 2; i < layers; ++i)
      hybrid[static_cast<std::size_t>(i)] = i == 2 || (i - 3) % period == offset;
  } else {
    config.inner().fail("missing 'layers_block_type', which says what each layer is");
  }
  return hybrid;
}

}  // namespace

/// Layers of Mamba, some behind a transformer block whose weights they share.
void build_zamba(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, true);
  if (!llm.tied_embeddings) {
    config.find_anywhere({"tie_word_embeddings"})->fail("the class shares its blocks only where it ties the head");
  }
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  const std::vector<bool> hybrid = hybrid_layers(config, layers);
  LayerSpec mamba, block;
  mamba.norms = 1;
  mamba.mixer = read_mixer(config, {kMamba, llm.hidden});
  const SharedBlockSpec shared = read_shared_block(config, llm.hidden);
  block.norms = 0;
  block.mixer = shared;
  StackSpec stack;
  stack.hidden = llm.hidden;
  for (const bool both : hybrid) {
    if (both) append_layer(stack, block);
    append_layer(stack, mamba);
  }
  const bool any = std::find(hybrid.begin(), hybrid.end(), true) != hybrid.end();
  const std::int64_t stated = config.dim_or({"num_mem_blocks"}, 1), copies = any ? stated : 0;
  stack.other_params =
      static_cast<double>(llm.hidden) + static_cast<double>(copies) * shared.shared_params(llm.hidden).total();
  config.assume("the transformer block that hybrid layers share is counted once among the parameters");
  llm.stacks.push_back(std::move(stack));
}

namespace {

/// The same pattern as a list of words (transformers 5).
std::string letters_of(const JsonValue& list) {
  std::string letters;
  for (const JsonValue& value : list.elements()) {
    const std::string word = value.as_string();
    if (word == "mamba" || word == "linear_attention") letters += 'M';
    else if (word == "attention" || word == "full_attention") letters += '*';
    else if (word == "mlp") letters += '-';
    else if (word == "moe") letters += 'E';
    else value.fail("expected linear_attention, full_attention, mlp or moe, found '" + word + "'");
  }
  return letters;
}

}  // namespace

/// Nemotron-H: one character a layer, a mixer or an FFN, each with one norm. Pattern of M, *, - and E.
void build_nemotron_h(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, false);
  auto pattern = config.find({"hybrid_override_pattern"});
  const auto list = config.find({"layers_block_type", "layer_types"});
  if (!pattern && !list) config.inner().fail("missing 'hybrid_override_pattern', which says what each layer is");
  const std::string text = pattern ? pattern->as_string() : letters_of(*list);
  if (!pattern) pattern = list;
  if (text.empty() || static_cast<std::int64_t>(text.size()) > LlmConfig::kMostLayers) {
    pattern->fail("expected 1 to " + std::to_string(LlmConfig::kMostLayers) + " characters");
  }
  const auto layer_of = [&](char c) {
    LayerSpec layer;
    layer.norms = 1;
    switch (c) {
      case 'M': layer.mixer = read_mixer(config, {kMamba, llm.hidden}); break;
      case '*': layer.mixer = read_mixer(config, {kFullAttention, llm.hidden}); break;
      case '-': layer.ffn = read_dense_ffn(config, llm.hidden); break;
      case 'E': layer.ffn = read_moe_ffn(config); break;
      default: pattern->fail(std::string("expected M, *, - or E, found '") + c + "'");
    }
    return layer;
  };
  StackSpec stack;
  stack.hidden = llm.hidden;
  config.find({"num_hidden_layers"});
  for (const char c : text) append_layer(stack, layer_of(c));
  stack.other_params = static_cast<double>(llm.hidden);
  llm.stacks.push_back(std::move(stack));
  const auto words = config.find({"mtp_layers_block_type"});
  const auto stated = config.find({"mtp_hybrid_override_pattern"});
  const std::string extra = stated ? stated->as_string() : (words ? letters_of(*words) : "");
  if (!extra.empty() && config.count_or({"num_nextn_predict_layers"}, 0) > 0) {
    for (const char c : extra) {
      LayerSpec layer = layer_of(c);
      count_layer(layer, llm.hidden);
      llm.mtp_params += layer.params;
    }
    const double h = static_cast<double>(llm.hidden);
    llm.mtp_params += 2.0 * h * h + 3.0 * h;
  }
}

}  // namespace plumbline
