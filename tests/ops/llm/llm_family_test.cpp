// The table of families: what a model_type implies.
#include "ops/config/family.hpp"

#include <gtest/gtest.h>

#include <set>

namespace plumbline::llm_family_test {
namespace {

TEST(Families, NamesAreUniqueAndFound) {
  std::set<std::string> seen;
  for (const std::string& name : family_names()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    const Family* family = find_family(name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_EQ(family->type, name);
  }
  EXPECT_EQ(find_family("llamaa"), nullptr);
}

TEST(Families, ArchitecturesNameTheirFamily) {
  const auto type = [](const char* architecture) {
    const Family* family = family_of_architecture(architecture);
    return family == nullptr ? std::string("none") : std::string(family->type);
  };
  EXPECT_EQ(type("LlamaForCausalLM"), "llama");
  EXPECT_EQ(type("Qwen2MoeForCausalLM"), "qwen2_moe");
  EXPECT_EQ(type("SomethingElse"), "none");
}

TEST(Families, FlagsAreSingleBitsAndSayTheClassDefaults) {
  EXPECT_TRUE(find_family("gpt2")->has(kLayerNorm));
  EXPECT_TRUE(find_family("gpt2")->has(kTied));
  EXPECT_FALSE(find_family("llama")->has(kLayerNorm));
  EXPECT_TRUE(find_family("gemma2")->has(kEvenSlide));
  EXPECT_EQ(find_family("gemma3")->pattern, 6);
  EXPECT_EQ(kSilentDims & (kSilentDims - 1), 0u);
}

}  // namespace
}  // namespace plumbline::llm_family_test
