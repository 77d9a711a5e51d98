// A checkpoint's index against the config beside it.
#include "ops/llm/published_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/ops/llm/llm_texts.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::published_size_test {
namespace {

using llm_texts::llama;
using llm_texts::read;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string index_of(double bytes) {
  return R"({"metadata":{"total_size":)" + std::to_string(static_cast<std::int64_t>(bytes)) + R"(},"weight_map":{}})";
}

Llm checked(Llm llm, double bytes) {
  check_published_size(llm, index_of(bytes), "index");
  return llm;
}

TEST(PublishedSize, OfA16BitModelIsTwoBytesAParameter) {
  const Llm llm = load_llm("llama-3.1-8b");
  EXPECT_EQ(published_weights(llm).in(units::B), 2 * llm.params);
}

TEST(PublishedSize, FurtherThanOnePercentApartIsAWarning) {
  const Llm llm = read(llama());
  const double bytes = 2 * llm.params;
  EXPECT_TRUE(checked(llm, bytes).warnings.empty());
  EXPECT_TRUE(checked(llm, 1.0099 * bytes).warnings.empty());
  const Llm apart = checked(llm, 1.02 * bytes);
  EXPECT_THAT(apart.warnings, Contains(AllOf(HasSubstr("read as"), HasSubstr("the checkpoint's index says"))));
  EXPECT_FALSE(apart.guessed) << "bands are those of a model that is known";
  EXPECT_EQ(checked(llm, 0.98 * bytes).warnings.size(), 1U);
}

/// DeepSeek-V3's index says 688,586,727,753 bytes: fp8 matrices, a module for multi-token prediction with an embedding and a
/// head of its own.
TEST(PublishedSize, MayHoldModulesForMultiTokenPrediction) {
  const Llm llm = checked(load_llm("deepseek-v3"), 688586727753.0);
  EXPECT_TRUE(llm.warnings.empty());
  EXPECT_THAT(llm.assumptions, Contains(HasSubstr("and their embedding and head")));
}

TEST(PublishedSize, IsReadBesideTheConfig) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "config.json") << llama();
  EXPECT_TRUE(load_llm(folder / "config.json").warnings.empty());
  std::ofstream(folder / "model.safetensors.index.json") << index_of(7e6);
  const Llm llm = load_llm(folder / "config.json");
  ASSERT_EQ(llm.warnings.size(), 1U);
  EXPECT_THAT(llm.warnings.front(), HasSubstr("7.00 MB"));
}

TEST(PublishedSize, OfAFileThatIsNoIndexIsRefusedOrSaid) {
  Llm llm = read(llama());
  EXPECT_THROW(check_published_size(llm, "{", "index"), BadInput);
  EXPECT_THROW(check_published_size(llm, R"({"metadata":3})", "index"), BadInput);
  EXPECT_THROW(check_published_size(llm, R"({"metadata":{"total_size":-1}})", "index"), BadInput);
  check_published_size(llm, "{}", "index");
  EXPECT_THAT(llm.assumptions, Contains(HasSubstr("no 'metadata.total_size'")));
}

}  // namespace
}  // namespace plumbline::published_size_test
