// Looking keys up in a config.json: names, null, ranges, notes, and keys that nobody asked for.
#include "ops/config/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"

namespace plumbline::llm_config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Config : public ::testing::Test {
 protected:
  static LlmConfig of(const JsonDocument& inner, const JsonDocument& outer) {
    return {inner.root(), outer.root(), *find_family("llama")};
  }
  static JsonDocument document(const std::string& members) { return JsonDocument::parse("{" + members + "}", "test"); }

  template <class Ask>
  static std::string refusal(const std::string& members, Ask ask) {
    const JsonDocument inner = document(members);
    try {
      ask(of(inner, inner));
    } catch (const BadInput& error) {
      return error.what();
    }
    return "(accepted)";
  }
};

TEST_F(Config, TheFirstNameThatIsThereAndNotNullCounts) {
  const JsonDocument inner = document(R"("b":2,"a":null,"c":3)"), outer = document(R"("d":4,"b":5)");
  const LlmConfig config = of(inner, outer);
  EXPECT_EQ(config.maybe_dim({"a", "b", "c"}), 2);
  EXPECT_EQ(config.maybe_dim({"c", "b"}), 3);
  EXPECT_EQ(config.maybe_dim({"a"}), std::nullopt);
  EXPECT_EQ(config.maybe_dim({"d"}), std::nullopt) << "the outer object is asked by name only";
  EXPECT_EQ(config.find_anywhere({"d"})->as_integer(), 4);
  EXPECT_EQ(config.find_anywhere({"b"})->as_integer(), 2);
}

TEST_F(Config, SizesBeginAtOneAndCountsAtNone) {
  const auto ask = [](const LlmConfig& c) { (void)c.dim({"n"}, "width"); };
  EXPECT_EQ(refusal(R"("n":1)", ask), "(accepted)");
  EXPECT_EQ(refusal(R"("n":2147483648)", ask), "(accepted)");
  EXPECT_THAT(refusal(R"("n":0)", ask), HasSubstr("/n: expected a whole number from 1"));
  EXPECT_THAT(refusal(R"("n":2147483649)", ask), HasSubstr("/n: expected a whole number from 1"));
  EXPECT_EQ(refusal(R"("n":0)", [](const LlmConfig& c) { EXPECT_EQ(c.count_or({"n"}, 7), 0); }), "(accepted)");
  EXPECT_EQ(refusal("", [](const LlmConfig& c) { EXPECT_EQ(c.count_or({"n"}, 7), 7); }), "(accepted)");
  EXPECT_THAT(refusal(R"("n":10001)", [](const LlmConfig& c) { (void)c.layers({"n"}); }), HasSubstr("from 1 to 10000"));
}

TEST_F(Config, AMissingSizeNamesAllItsKeysAndTheNearest) {
  const std::string text = refusal(R"("hiden_size":64)", [](const LlmConfig& c) {
    (void)c.dim({"hidden_size", "n_embd"}, "hidden width");
  });
  EXPECT_THAT(text, HasSubstr("missing hidden width: expected one of 'hidden_size', 'n_embd'"));
  EXPECT_THAT(text, HasSubstr("did you mean 'hiden_size'?"));
}

TEST_F(Config, FlagsAreBooleansOrNumbers) {
  const JsonDocument inner = document(R"("yes":true,"one":1,"none":0)");
  const LlmConfig config = of(inner, inner);
  EXPECT_TRUE(config.flag_or({"yes"}, false));
  EXPECT_TRUE(config.flag_or({"one"}, false));
  EXPECT_FALSE(config.flag_or({"none"}, true));
  EXPECT_TRUE(config.flag_or({"absent"}, true));
}

TEST_F(Config, KeysThatLookLikeDimensionsAndWereNotAskedForAreUnknown) {
  const JsonDocument inner = document(
      R"("asked_dim":1,"new_rank":4,"new_heads":0,"new_layers":[],"other_size":false,"_dim":3,"chunk_size":9,"note":5)");
  const LlmConfig config = of(inner, inner);
  (void)config.find({"asked_dim"});
  EXPECT_THAT(config.unknown_keys(), ElementsAre("new_rank")) << "0, [] and false switch a feature off";
  (void)config.has({"absent", "new_rank"});
  EXPECT_THAT(config.unknown_keys(), IsEmpty()) << "asked for by a second name";
}

TEST_F(Config, NotesAreKeptOnceInOrder) {
  const JsonDocument inner = document("");
  const LlmConfig config = of(inner, inner);
  config.assume("b");
  config.assume("a");
  config.assume("b");
  EXPECT_THAT(config.assumptions(), ElementsAre("b", "a"));
}

TEST_F(Config, ProductsOfWidthsAreBounded) {
  EXPECT_EQ(refusal("", [](const LlmConfig& c) { EXPECT_EQ(c.product(1 << 20, 1 << 20, "n"), 1LL << 40); }),
            "(accepted)");
  EXPECT_THAT(refusal("", [](const LlmConfig& c) { (void)c.product(1 << 20, (1 << 20) + 1, "n"); }),
              HasSubstr("'n' makes a width above 2^40"));
}

TEST(Families, TypesThatNobodyReadsAreNoFamilies) {
  EXPECT_TRUE(is_unread_type("wav2vec2"));
  EXPECT_TRUE(is_unread_type("blt"));
  EXPECT_FALSE(is_unread_type("lfm2"));
  EXPECT_FALSE(is_unread_type("rwkv"));
  for (const std::string& name : family_names()) EXPECT_FALSE(is_unread_type(name)) << name;
}

}  // namespace
}  // namespace plumbline::llm_config_test
