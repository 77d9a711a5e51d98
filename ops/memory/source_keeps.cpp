#include "ops/memory/source_keeps.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "ops/llm/ffn_words.hpp"
#include "ops/resolve/joined_matrices.hpp"

namespace plumbline::lowering {
namespace {

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct KeepsOf {
  std::string_view name;
  ActivationKeeps plain, cast;  ///< without and under autocast
};

/// Counted on fake CUDA tensors between two products (torch.autograd.graph.saved_tensors_hooks), of activations.py of
/// transformers 5.17. Autocast takes powers, softplus and expm1 in fp32, and with them all that comes behind.
constexpr std::array kKeepsOf{KeepsOf{"gelu_new", {3}, {0, 3, 0, true}},
                              KeepsOf{"gelu_accurate", {3}, {0, 3, 0, true}},
                              KeepsOf{"gelu_python_tanh", {3}, {0, 3, 0, true}},
                              KeepsOf{"gelu_fast", {6}, {6}},
                              KeepsOf{"gelu_python", {2}, {2}},
                              KeepsOf{"gelu_10", {1}, {1}},
                              KeepsOf{"quick_gelu", {1}, {1}},
                              KeepsOf{"linear", {-1}, {-1}},
                              KeepsOf{"relu", {-1}, {-1}},
                              KeepsOf{"sigmoid", {-1}, {-1}},
                              KeepsOf{"tanh", {-1}, {-1}},
                              KeepsOf{"relu2", {}, {0, 1, 0, true}},
                              KeepsOf{"xielu", {3, 0, 1}, {0, 3, 1, true}}};

}  // namespace

ActivationKeeps activation_keeps(std::string_view name, Activation kind, bool autocast) {
  if (name.empty()) name = kActivationWords[static_cast<std::size_t>(kind)];
  const auto found =
      std::find_if(kKeepsOf.begin(), kKeepsOf.end(), [name](const KeepsOf& each) { return each.name == name; });
  if (found == kKeepsOf.end()) return {};
  return autocast ? found->cast : found->plain;
}

/// Read in modeling_<model_type>.py of transformers 5.17 and counted on fake CUDA tensors.
SourceKeeps source_keeps(const Llm& llm) {
  const std::string_view name = llm.model_type == "phi-msft" ? "phi" : std::string_view(llm.model_type);
  SourceKeeps keeps;
  keeps.joined_queries = joins_queries(llm);
  keeps.joined_gate = joins_gate(llm);
  keeps.views = one_of(name, {"phi3", "gpt_neox", "modernbert", "persimmon"});
  keeps.turns_part = one_of(name, {"phi3", "gpt_neox", "phi", "stablelm"});
  keeps.wide_norms = name.starts_with("gemma") || one_of(name, {"vaultgemma", "olmo2", "olmo3", "helium", "gpt_oss"});
  keeps.wide_centred_norms = one_of(name, {"cohere", "cohere2"});
  keeps.wide_layernorm = name == "olmo";
  keeps.casts_layernorm = name == "nemotron";
  keeps.norms_behind = name == "exaone4";
  keeps.biases_scores = one_of(name, {"t5", "mt5", "umt5"});
  keeps.biases_each_layer = name == "umt5";
  keeps.norms_stream = keeps.biases_scores;
  const bool as_bart = one_of(name, {"bart", "plbart", "mbart", "pegasus", "marian", "blenderbot", "m2m_100"});
  keeps.narrow_softmax = keeps.biases_scores || one_of(name, {"gpt2", "bert", "esm"});
  keeps.softmax_as_scores = as_bart || one_of(name, {"gpt_oss", "biogpt", "xglm", "deberta-v2"});
  keeps.bounds_scores = name == "xglm";
  keeps.scores_distances = name == "deberta-v2";
  keeps.jitters_rows = name == "phimoe";
  keeps.clamps_gate = name == "gpt_oss";
  keeps.wide_scores = one_of(name, {"gptj", "gpt_neo", "codegen"});
  keeps.norms_turned = name == "hunyuan_v1_dense";
  keeps.caps_scores = name == "gemma2";
  keeps.ends_of_encoder = as_bart;
  keeps.biases_logits = as_bart && name != "m2m_100";
  keeps.outer_norms = name == "mbart" ? 2 : name == "marian" ? 0 : 1;
  const bool drops_scores = !llm.main().kinds.empty() && llm.main().kinds.front().drops_scores;
  keeps.keeps_all_scores = name == "opt" || (as_bart && !drops_scores);
  keeps.keeps_embedding = one_of(name, {"opt", "phi"});
  keeps.keeps_mixed = name == "distilbert";
  keeps.keeps_fed = name == "albert";
  keeps.broadcasts_keys = name == "falcon";
  keeps.routes_in_fp32 = one_of(name, {"glm4_moe", "deepseek_v2", "deepseek_v3"});
  return keeps;
}

}  // namespace plumbline::lowering
