// Default configurations and variants of the causal language model families of Hugging Face transformers 5.17, against the
// parameters of the real modules (shared tensors once, built without weights). tests/ops/hf_families.json, and drawn at
// random tests/ops/hf_variants.json.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "arch/error.hpp"
#include "arch/json_reader.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "tests/ops/lower/lower_models.hpp"
#include "tests/support/places.hpp"

namespace plumbline::llm_families_test {
namespace {

using testing_support::multiplied_weights;

// Refused, by the name of a key or of a kind of layer.
const std::set<std::string> kRefused{"blt"};

const JsonDocument& document() {
  static const JsonDocument file = JsonDocument::read_file(testing_support::tests_folder() + "/ops/hf_families.json");
  return file;
}

struct Case {
  std::string name, config;
  double params = 0;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const JsonValue models = document().root().at("models");
  for (const std::string& name : models.keys()) {
    const JsonValue model = models.at(name);
    const std::string config = model.at("config").dump();
    all.push_back({name, config, model.at("params").as_number()});
    const JsonDocument base = JsonDocument::parse(config, name);
    for (const JsonValue& variant : model.at("variants").elements()) {
      const JsonDocument change = JsonDocument::parse(variant.at("change").dump(), name);
      all.push_back({name, base.merged_with(change).root().dump(), variant.at("params").as_number()});
    }
  }
  return all;
}

std::optional<Llm> read(const Case& one) {
  try {
    return parse_llm(one.config, "", one.name);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

TEST(HfFamilies, HaveTheParametersOfTheRealModulesOrAreRefused) {
  int counted = 0;
  for (const Case& one : cases()) {
    const auto llm = read(one);
    EXPECT_EQ(llm.has_value(), kRefused.count(one.name) == 0) << one.name << ": " << one.config;
    if (!llm) continue;
    const double params = llm->params + llm->tower_params + llm->unfilled_params;
    EXPECT_NEAR(params / one.params, 1, 1e-3)
        << one.name << ": " << params << " for " << one.params << ": " << one.config;
    ++counted;
  }
  EXPECT_GT(counted, 500);
  EXPECT_EQ(document().root().at("models").size(), 151U);
}

/// `object` without these keys, as text.
std::string text_without(const JsonValue& object, const JsonValue& keys) {
  std::set<std::string> dropped;
  for (const JsonValue& key : keys.elements()) dropped.insert(key.as_string());
  std::string text;
  for (const std::string& key : object.keys()) {
    if (dropped.count(key) > 0) continue;
    const auto value = object.find(key);
    text += (text.empty() ? "{\"" : ",\"") + key + "\":" + (value ? value->dump() : "null");
  }
  return text + "}";
}

/// Reads each variant of a file; how many.
int read_variants(const char* name) {
  const JsonDocument file = JsonDocument::read_file(testing_support::tests_folder() + "/ops/" + name);
  int counted = 0;
  for (const JsonValue& variant : file.root().at("variants").elements()) {
    const std::string type = variant.at("type").as_string();
    const JsonDocument base = JsonDocument::parse(document().root().at("models").at(type).at("config").dump(), type);
    const JsonDocument whole = base.merged_with(JsonDocument::parse(variant.at("change").dump(), type));
    const std::string config = text_without(whole.root(), variant.at("without"));
    Llm llm;
    EXPECT_NO_THROW(llm = parse_llm(config, "", type)) << config;
    const double params = variant.at("params").as_number();
    EXPECT_NEAR((llm.params + llm.tower_params + llm.unfilled_params) / params, 1, 1e-3) << type << ": " << config;
    ++counted;
  }
  return counted;
}

/// Sizes, switches and lists that were drawn at random, and keys left out, which the class has a default for.
TEST(HfVariants, HaveTheParametersOfTheRealModules) { EXPECT_GT(read_variants("hf_variants.json"), 1000); }

/// Several keys at once, as the configuration class writes what follows from them.
TEST(HfVariants, DrawnAsAWholeHaveThemToo) { EXPECT_GE(read_variants("hf_drawn.json"), 700); }

/// Other types than the 151: models with towers, encoders, encoder-decoders, vision transformers.
TEST(HfOthers, HaveTheParametersOfTheRealModules) {
  const JsonDocument file = JsonDocument::read_file(testing_support::tests_folder() + "/ops/hf_others.json");
  const auto models = file.root().at("models").elements();
  EXPECT_GT(models.size(), 70U);
  for (const JsonValue& one : models) {
    const std::string type = one.at("type").as_string();
    Llm llm;
    EXPECT_NO_THROW(llm = parse_llm(one.at("config").dump(), "", type)) << type;
    const double params = one.at("params").as_number();
    EXPECT_NEAR((llm.params + llm.tower_params + llm.unfilled_params) / params, 1, 1e-3) << type;
    EXPECT_TRUE(llm.warnings.empty()) << type;
  }
}

/// A file without its main sizes is read with those of its class, and says so above the numbers.
TEST(HfVariants, MainSizesOfTheClassAreSaidAboveTheNumbers) {
  const Llm llm = parse_llm(R"({"model_type":"llama","num_hidden_layers":2,"torch_dtype":"bfloat16"})", "", "test");
  EXPECT_EQ(llm.hidden, 4096);
  ASSERT_EQ(llm.warnings.size(), 1U);
  EXPECT_EQ(llm.warnings[0],
            "the file does not say its main sizes: hidden_size 4096, num_attention_heads 32, vocab_size 32000 are the "
            "defaults of the class of 'llama' in transformers");
}

/// A class default counts only where the file says nothing of the thing by any of its names, not even null; the report
/// names it.
TEST(HfVariants, WhatTheClassSaysIsSaid) {
  const std::string head = R"({"model_type":"mixtral","vocab_size":10,"hidden_size":64,"num_hidden_layers":2,
      "num_attention_heads":8,"intermediate_size":32,"tie_word_embeddings":false,"torch_dtype":"bfloat16")";
  const auto said = [](const Llm& llm) {
    for (const std::string& sentence : llm.assumptions) {
      if (sentence.starts_with("keys that the config leaves out")) return sentence;
    }
    return std::string();
  };
  const Llm silent = parse_llm(head + "}", "", "test");
  EXPECT_EQ(said(silent),
            "keys that the config leaves out, as the class of 'mixtral' in transformers has them: "
            "num_experts_per_tok 2, num_key_value_heads 8, num_local_experts 8");
  EXPECT_EQ(silent.main().kinds.front().ffn->experts, 8);
  const Llm other = parse_llm(head + R"(,"num_kv_heads":2,"num_experts":4,"moe_topk":1})", "", "test");
  EXPECT_EQ(said(other), "");
  EXPECT_EQ(other.main().kinds.front().ffn->experts, 4);
  EXPECT_EQ(other.kv_elements_per_token, 2 * 2 * 2 * 8);
  const Llm null = parse_llm(head + R"(,"num_key_value_heads":null})", "", "test");
  EXPECT_EQ(null.kv_elements_per_token, 2 * 2 * 8 * 8) << "null means as many as query heads";
}

TEST(HfVariants, NoExpertsAreRefusedWhereLayersHaveNothingElse) {
  const std::string head = R"({"model_type":"mixtral","vocab_size":10,"hidden_size":64,"num_hidden_layers":2,
      "num_attention_heads":8,"intermediate_size":32,"num_local_experts":0})";
  try {
    (void)parse_llm(head, "", "test");
    FAIL() << "accepted";
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(),
                 "test: /num_local_experts: expected at least one expert: layers of this kind have no "
                 "other feed-forward part, found 0");
  }
}

/// Products with weights: two operations a weight and token, of experts those that are chosen. Norms, biases,
/// convolutions and per-head vectors are all that may be missing; small default configs have more of them.
TEST(HfFamilies, MultiplyTheirActiveWeights) {
  // What is block-diagonal is a product of heads or groups; what Zamba's layers share stands outside the layers.
  const std::set<std::string> apart{"deepseek_v4", "recurrent_gemma", "zamba", "zamba2"};
  std::set<std::string> seen;
  for (const Case& one : cases()) {
    if (!seen.insert(one.name).second || kRefused.count(one.name) + apart.count(one.name) > 0) continue;
    const auto llm = read(one);
    ASSERT_TRUE(llm.has_value()) << one.name;
    const StackSpec& main = llm->main();
    const double share = multiplied_weights(*llm, main);
    EXPECT_LE(share, 1 + 1e-9) << one.name;
    EXPECT_GE(share, 0.985) << one.name;
  }
}

TEST(HfFamilies, EveryStepThatTheyTakeCanBeLowered) {
  std::set<std::string> seen;
  for (const Case& one : cases()) {
    if (!seen.insert(one.name).second || kRefused.count(one.name) > 0) continue;
    const auto llm = read(one);
    ASSERT_TRUE(llm.has_value()) << one.name;
    for (const Phase phase : {Phase::prefill, Phase::decode}) {
      if (phase == Phase::decode && llm->main().role != StackSpec::Role::decoder) continue;
      for (const Fusion fusion : {Fusion::none, Fusion::typical, Fusion::max}) {
        Workload workload;
        workload.phase = phase;
        workload.batch = 2;
        workload.prompt = workload.context = 128;
        workload.fusion = fusion;
        const Graph graph = lower(*llm, workload);
        EXPECT_FALSE(graph.nodes.empty()) << one.name;
      }
    }
  }
}

/// 560 billion are published (arXiv 2509.01322), 741 billion in transformers' module, which makes room for gate and up
/// matrices of identity experts.
TEST(LongCat, HasThePublishedParameters) {
  for (const Case& one : cases()) {
    if (one.name != "longcat_flash") continue;
    EXPECT_NEAR(read(one)->params, 560.66e9, 0.01e9);
    EXPECT_EQ(read(one)->unfilled_params, 28.0 * 256 * 2 * 2048 * 6144);
    const JsonDocument file = JsonDocument::parse(one.config, one.name);
    const JsonDocument layers = JsonDocument::parse(R"(["num_hidden_layers"])", one.name);
    const Llm own = parse_llm(text_without(file.root(), layers.root()), "", one.name);
    EXPECT_EQ(own.unfilled_params, 0) << "the checkpoint's own form of the file";
    EXPECT_EQ(own.params, read(one)->params);
    return;
  }
  FAIL() << "the file has no such model";
}

/// LongcatFlashMLA splits qk_head_dim into its two parts: a width that is not their sum cannot run.
TEST(LongCat, HeadWidthIsTheSumOfItsParts) {
  const auto with = [](int width) {
    return R"({"model_type":"longcat_flash","hidden_size":256,"vocab_size":512,"num_layers":1,"num_attention_heads":4,
      "kv_lora_rank":32,"q_lora_rank":64,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,"ffn_hidden_size":512,
      "expert_ffn_hidden_size":64,"n_routed_experts":8,"zero_expert_num":4,"moe_topk":2,"qk_head_dim":)" +
           std::to_string(width) + "}";
  };
  EXPECT_NO_THROW((void)parse_llm(with(24), "", "test"));
  for (const int width : {23, 25, 192}) {
    try {
      (void)parse_llm(with(width), "", "test");
      FAIL() << width;
    } catch (const BadInput& error) {
      EXPECT_EQ(
          std::string(error.what()),
          "test: /qk_head_dim: expected qk_nope_head_dim + qk_rope_head_dim = 24, found " + std::to_string(width));
    }
  }
}

}  // namespace
}  // namespace plumbline::llm_families_test
