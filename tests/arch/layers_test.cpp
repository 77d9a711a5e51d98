// From a name to the files behind a descriptor.
#include "arch/gpu/layers.hpp"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::descriptor::layers_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing_support::refusal;

TEST(Layers, NamesAreComparedWithoutCaseSignsAndBrand) {
  EXPECT_EQ(normalised_name("NVIDIA H100 80GB HBM3"), "h100_80gb_hbm3");
  EXPECT_EQ(normalised_name("H100-SXM"), "h100_sxm");
  EXPECT_EQ(normalised_name("  h200 -- sxm!! "), "h200_sxm");
  EXPECT_EQ(normalised_name("Tesla V100-SXM2-16GB"), "v100_sxm2_16gb");
  EXPECT_EQ(normalised_name("AMD Instinct MI300X"), "mi300x");
  EXPECT_EQ(normalised_name("NVIDIA GeForce RTX 4090"), "rtx_4090");
  EXPECT_EQ(normalised_name("nvidia"), "nvidia");  // a brand alone is a name
  EXPECT_EQ(normalised_name("H\xc3\xa4"), "h");    // nothing beyond ASCII
  EXPECT_EQ(normalised_name("-"), "");
}

TEST(Layers, AFileIsFoundByNameAndAlias) {
  EXPECT_THAT(gpu_file("h200_sxm"), EndsWith("/gpus/h200_sxm.json"));
  EXPECT_THAT(gpu_file("H200"), EndsWith("/gpus/h200_sxm.json"));
  EXPECT_THAT(refusal([] { gpu_file("h20_sx"); }),
              AllOf(HasSubstr("unknown GPU 'h20_sx'"), HasSubstr("did you mean '")));
  EXPECT_THAT(refusal([] { gpu_file(std::string(100, 'x')); }), HasSubstr("'" + std::string(60, 'x') + "'"));
  EXPECT_THROW(gpu_file(""), BadInput);
}

TEST(Layers, TheMostBasicComesFirst) {
  const auto layers =
      extends_chain(JsonDocument::parse(R"({"name": "mine", "extends": "h200_sxm"})", "my.json"), "mine");
  ASSERT_GE(layers.size(), 3U);
  EXPECT_EQ(layers.back().label, "mine");
  EXPECT_EQ(layers[layers.size() - 2].label, "h200_sxm");
  EXPECT_EQ(layers.front().label, "family hopper");
  EXPECT_TRUE(layers.front().is_family);
  EXPECT_FALSE(layers.back().is_family);
}

TEST(Layers, ADescriptorThatExtendsNothingStandsAlone) {
  EXPECT_EQ(extends_chain(JsonDocument::parse(R"({"name": "mine"})", "my.json"), "mine").size(), 1U);
}

/// A data folder of its own with cards g0 to g6, each extending the one before it.
class LongChain : public testing::Test {
 protected:
  LongChain() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plumbline-chain-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    if (const char* old = std::getenv("PLUMBLINE_DATA")) old_ = old;
    setenv("PLUMBLINE_DATA", folder_.c_str(), 1);
    std::filesystem::create_directory(folder_ + "/gpus");
    write_text_file(folder_ + "/gpus/g0.json", R"({"name": "g0"})");
    for (int i = 1; i < 7; ++i) {
      const std::string name = "g" + std::to_string(i);
      write_text_file(folder_ + "/gpus/" + name + ".json",
                      R"({"name": ")" + name + R"(", "extends": "g)" + std::to_string(i - 1) + "\"}");
    }
  }
  ~LongChain() override {
    if (old_.empty()) unsetenv("PLUMBLINE_DATA");
    else setenv("PLUMBLINE_DATA", old_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  static std::vector<Layer> chain_of(const std::string& name) {
    return extends_chain(JsonDocument::read_file(gpu_file(name)), name);
  }
  std::string folder_, old_;
};

TEST_F(LongChain, SixDocumentsAreTheMost) {
  EXPECT_EQ(chain_of("g5").size(), 6U);
  EXPECT_EQ(chain_of("g5").front().label, "g0");
  EXPECT_THAT(refusal([] { chain_of("g6"); }), HasSubstr("longer than 6"));
}

TEST(Layers, WhatCannotBeExtendedIsNamed) {
  const auto extending = [](const std::string& base) {
    return refusal([&] {
      extends_chain(JsonDocument::parse(R"({"name": "mine", "extends": ")" + base + "\"}", "my.json"), "mine");
    });
  };
  EXPECT_THAT(extending("h200_sx"), AllOf(HasSubstr("my.json: /extends"), HasSubstr("did you mean 'h200_sxm'?")));
  EXPECT_THAT(extending("family:hoper"),
              AllOf(HasSubstr("unknown family 'hoper'"), HasSubstr("did you mean 'hopper'?")));
  EXPECT_THAT(extending("family:"), HasSubstr("unknown family ''"));
  EXPECT_THAT(extending("family:../h200_sxm"), HasSubstr("unknown family"));
  EXPECT_THAT(refusal([] { extends_chain(JsonDocument::parse("[]", "my.json"), "mine"); }),
              HasSubstr("expected a GPU descriptor (an object)"));
}

}  // namespace
}  // namespace plumbline::descriptor::layers_test
