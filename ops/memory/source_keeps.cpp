#include "ops/memory/source_keeps.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "ops/resolve/joined_matrices.hpp"

namespace plumbline::lowering {
namespace {

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

/// Read in modeling_<model_type>.py of transformers 5.17 and counted on fake CUDA tensors.
SourceKeeps source_keeps(const Llm& llm) {
  const std::string_view name = llm.model_type == "phi-msft" ? "phi" : std::string_view(llm.model_type);
  SourceKeeps keeps;
  keeps.joined_queries = joins_queries(llm);
  keeps.joined_gate = joins_gate(llm);
  keeps.views = one_of(name, {"phi3", "gpt_neox", "modernbert"});
  keeps.turns_part = one_of(name, {"phi3", "gpt_neox", "phi", "stablelm"});
  keeps.wide_norms = name.starts_with("gemma") || one_of(name, {"vaultgemma", "olmo2", "olmo3", "helium"});
  keeps.wide_centred_norms = one_of(name, {"cohere", "cohere2"});
  keeps.wide_layernorm = name == "olmo";
  keeps.casts_layernorm = name == "nemotron";
  keeps.norms_behind = name == "exaone4";
  keeps.biases_scores = one_of(name, {"t5", "mt5", "umt5"});
  keeps.biases_each_layer = name == "umt5";
  keeps.norms_stream = keeps.biases_scores;
  keeps.narrow_softmax = keeps.biases_scores || one_of(name, {"gpt2", "bert"});
  keeps.gelu_written_out = keeps.biases_scores || one_of(name, {"gpt2", "gpt_neo", "gptj", "phi", "codegen", "albert"});
  keeps.caps_scores = name == "gemma2";
  keeps.keeps_all_scores = name == "opt";
  keeps.keeps_embedding = one_of(name, {"opt", "phi"});
  keeps.broadcasts_keys = name == "falcon";
  return keeps;
}

}  // namespace plumbline::lowering
