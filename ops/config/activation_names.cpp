#include "ops/config/activation_names.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arch/files.hpp"

namespace plumbline {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr auto kActivations = std::to_array<std::string_view>({"gelu",
                                                               "gelu_10",
                                                               "gelu_fast",
                                                               "gelu_new",
                                                               "gelu_python",
                                                               "gelu_pytorch_tanh",
                                                               "gelu_python_tanh",
                                                               "gelu_accurate",
                                                               "hardswish",
                                                               "laplace",
                                                               "leaky_relu",
                                                               "linear",
                                                               "mish",
                                                               "prelu",
                                                               "quick_gelu",
                                                               "relu",
                                                               "relu2",
                                                               "relu6",
                                                               "sigmoid",
                                                               "silu",
                                                               "tanh",
                                                               "sqrtsoftplus",
                                                               "xielu"});

/// Other names of the same: ACT2FN's, and those of configs that other code reads.
constexpr auto kOtherActivations = std::to_array<NamePair>({{"swish", "silu"},
                                                            {"swiglu", "silu"},
                                                            {"geglu", "gelu"},
                                                            {"sqrelu", "relu2"},
                                                            {"relu_squared", "relu2"},
                                                            {"squared_relu", "relu2"}});

/// What configuration_<model_type>.py of transformers 5.17 has where the file says nothing.
constexpr auto kClassActivations = std::to_array<NamePair>({{"gpt2", "gelu_new"},
                                                            {"gptj", "gelu_new"},
                                                            {"gpt_neo", "gelu_new"},
                                                            {"codegen", "gelu_new"},
                                                            {"phi", "gelu_new"},
                                                            {"phi-msft", "gelu_new"},
                                                            {"albert", "gelu_new"},
                                                            {"umt5", "gelu_new"},
                                                            {"gpt_bigcode", "gelu_pytorch_tanh"},
                                                            {"starcoder2", "gelu_pytorch_tanh"},
                                                            {"gemma", "gelu_pytorch_tanh"},
                                                            {"gemma2", "gelu_pytorch_tanh"},
                                                            {"gemma3", "gelu_pytorch_tanh"},
                                                            {"gemma3_text", "gelu_pytorch_tanh"},
                                                            {"vaultgemma", "gelu_pytorch_tanh"},
                                                            {"bert", "gelu"},
                                                            {"roberta", "gelu"},
                                                            {"xlm-roberta", "gelu"},
                                                            {"xlm_roberta", "gelu"},
                                                            {"camembert", "gelu"},
                                                            {"electra", "gelu"},
                                                            {"distilbert", "gelu"},
                                                            {"megatron-bert", "gelu"},
                                                            {"ernie", "gelu"},
                                                            {"data2vec-text", "gelu"},
                                                            {"deberta", "gelu"},
                                                            {"deberta-v2", "gelu"},
                                                            {"modernbert", "gelu"},
                                                            {"gpt_neox", "gelu"},
                                                            {"gpt_neox_japanese", "gelu"},
                                                            {"falcon", "gelu"},
                                                            {"xglm", "gelu"},
                                                            {"biogpt", "gelu"},
                                                            {"opt", "relu"},
                                                            {"t5", "relu"},
                                                            {"nemotron", "relu2"},
                                                            {"arcee", "relu2"},
                                                            {"persimmon", "relu2"},
                                                            {"apertus", "xielu"}});

template <class Table>
std::string_view activation_in(const Table& table, std::string_view key) {
  const auto found =
      std::find_if(table.begin(), table.end(), [key](const NamePair& each) { return each.first == key; });
  return found == table.end() ? std::string_view{} : found->second;
}

}  // namespace

std::string activation_name(const LlmConfig& config, std::string_view model_type) {
  const std::string_view type = config.family().type;
  if (type == "bloom") return {};           // BloomGelu of modeling_bloom.py
  if (type == "mpt") return "gelu";         // nn.GELU of modeling_mpt.py, whatever a config says
  if (type == "esm") return "gelu_python";  // gelu() of modeling_esm.py likewise
  std::string text = config.text_or({"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act",
                                     "activation_fn", "activation", "feed_forward_proj"},
                                    "");
  if (text == "gated-gelu") return "gelu_new";  // T5Config
  if (text.rfind("gated-", 0) == 0) text = text.substr(6);
  if (text.empty()) {
    const std::string_view own = activation_in(kClassActivations, model_type);
    return std::string(own.empty() ? activation_in(kClassActivations, type) : own);
  }
  const std::string_view same = activation_in(kOtherActivations, text);
  return same.empty() ? text : std::string(same);
}

bool is_activation_name(std::string_view name) {
  return std::find(kActivations.begin(), kActivations.end(), name) != kActivations.end();
}

std::string nearest_activation(std::string_view name) {
  return did_you_mean(name, std::vector<std::string>(kActivations.begin(), kActivations.end()));
}

}  // namespace plumbline
