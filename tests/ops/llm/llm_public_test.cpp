// Configurations of public models of 2019 to 2026 that do not ship, in the form in which their pages have them: none refused,
// parameters as published to 1 %. tests/ops/public_configs.json.
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "arch/json_reader.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "tests/support/places.hpp"

namespace plumbline::llm_public_test {
namespace {

TEST(PublicConfigs, HaveTheirPublishedParameters) {
  const JsonDocument file = JsonDocument::read_file(testing_support::tests_folder() + "/ops/public_configs.json");
  const JsonValue models = file.root().at("models");
  EXPECT_GE(models.size(), 120U);
  for (const std::string& name : models.keys()) {
    const JsonValue model = models.at(name);
    const Llm llm = parse_llm(model.at("config").dump(), "", name);
    const bool with_mtp = model.find_bool("with_mtp").value_or(false);
    const double params = llm.params + llm.tower_params + (with_mtp ? llm.mtp_params : 0.0);
    EXPECT_NEAR(params / model.at("params").as_number(), 1, 0.01) << name << ": " << params;
    EXPECT_FALSE(llm.guessed) << name;
    EXPECT_TRUE(llm.warnings.empty()) << name;
    Workload workload;
    workload.phase = Phase::prefill;
    workload.prompt = 256;
    EXPECT_FALSE(lower(llm, workload).nodes.empty()) << name;
  }
}

/// Towers by hand: counts of modules that papers and cards round to.
TEST(PublicConfigs, TowersAreCountedWithTheirProjectors) {
  const JsonDocument file = JsonDocument::read_file(testing_support::tests_folder() + "/ops/public_configs.json");
  const auto tower = [&](const char* name) {
    return parse_llm(file.root().at("models").at(name).at("config").dump(), "", name).tower_params;
  };
  // Qwen2-VL: 12 h^2 + 13 h a layer, patches of 2 x 3 x 14 x 14, a norm, 5120 x 5120 and 5120 x 1536 with biases.
  EXPECT_EQ(tower("qwen2-vl-2b"), 1176.0 * 1280 + 32 * (12.0 * 1280 * 1280 + 13 * 1280) + 2 * 1280 + 5120.0 * 5120 +
                                      5120 + 5120.0 * 1536 + 1536);
  // Pixtral: no biases; Mistral 3: a norm, 4096 to 1024, 1024 to 5120, 5120 to 5120.
  EXPECT_EQ(tower("mistral-small-3.1-24b"), 588.0 * 1024 + 1024 +
                                                24 * (4.0 * 1024 * 1024 + 3.0 * 1024 * 4096 + 2 * 1024) + 1024 +
                                                4096.0 * 1024 + 1024.0 * 5120 + 5120.0 * 5120);
}

/// A bare model, as those of embeddings are, makes no logits: neither weights of a head nor a product with it.
TEST(PublicConfigs, BareModelsHaveNoHead) {
  const std::string sizes = R"("model_type":"mistral","hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,
    "num_key_value_heads":2,"intermediate_size":512,"vocab_size":1000,"tie_word_embeddings":false})";
  const Llm bare = parse_llm(R"({"architectures":["MistralModel"],)" + sizes, "", "bare");
  const Llm whole = parse_llm(R"({"architectures":["MistralForCausalLM"],)" + sizes, "", "whole");
  EXPECT_EQ(whole.params - bare.params, 256.0 * 1000);
  Workload workload;
  workload.phase = Phase::prefill;
  workload.prompt = 64;
  EXPECT_LT(lower(bare, workload).nodes.size(), lower(whole, workload).nodes.size());
}

/// SantaCoder is a GPT-2 with one head of keys and values, which a word says; another word is not passed by.
TEST(PublicConfigs, KindOfHeadsIsRead) {
  const std::string sizes =
      R"("model_type":"gpt2","n_embd":256,"n_layer":2,"n_head":4,"n_positions":64,"vocab_size":1000)";
  const Llm many = parse_llm("{" + sizes + "}", "", "many");
  const Llm one = parse_llm("{" + sizes + R"(,"attention_head_type":"multiquery"})", "", "one");
  EXPECT_EQ(many.params - one.params, 2 * 2 * (256.0 + 1) * (256 - 64));
  EXPECT_THROW((void)parse_llm("{" + sizes + R"(,"attention_head_type":"linear"})", "", "other"), BadInput);
}

}  // namespace
}  // namespace plumbline::llm_public_test
