// Every config of data/models against the table of parameter counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ops/llm/llm.hpp"
#include "ops/llm/params.hpp"
#include "tests/support/places.hpp"

namespace plumbline::llm_configs_test {
namespace {

struct Row {
  std::string model;
  double published = 0, total = 0, active = 0, active_no_input = 0, kv_bytes = 0;
  double mtp = -1;  // < 0: the table has none
};

/// The table's sources hold commas in no cell; columns as in its first line.
std::vector<Row> read_table() {
  std::ifstream in(testing_support::tests_folder() + "/ops/param_counts.csv");
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line,
            "model,total_params,active_params,source,computed_total,computed_active_all,"
            "computed_active_no_input_embedding,computed_mtp,kv_bytes_per_token_16bit_no_window,total_diff");
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    std::stringstream cells(line);
    std::vector<std::string> cell;
    for (std::string text; std::getline(cells, text, ',');) cell.push_back(text);
    if (cell.size() != 10) {
      ADD_FAILURE() << line;
      continue;
    }
    Row row{cell[0],           std::stod(cell[1]), std::stod(cell[4]), std::stod(cell[5]), std::stod(cell[6]),
            std::stod(cell[8])};
    if (!cell[7].empty()) row.mtp = std::stod(cell[7]);
    rows.push_back(row);
  }
  return rows;
}

/// Where the loader counts more than the table, and why.
const std::map<std::string, const char*>& exceptions() {
  static const std::map<std::string, const char*> list{
      {"phi-mini-moe",
       "the checkpoint's LayerNorms have biases and the head has one (lm_head_bias); the table has neither"},
  };
  return list;
}

class EveryConfig : public ::testing::TestWithParam<Row> {};

TEST_P(EveryConfig, HasTheParametersOfTheTable) {
  const Row& row = GetParam();
  const Llm llm = load_llm(row.model);
  EXPECT_EQ(llm.name, row.model);
  if (exceptions().count(row.model) > 0) {
    EXPECT_NE(llm.params, row.total) << "no exception any more";
    EXPECT_NEAR(llm.params / row.total, 1.0, 0.01);
    EXPECT_NEAR(llm.active_params / row.active, 1.0, 0.01);
    EXPECT_NEAR(llm.active_params_no_input_embedding / row.active_no_input, 1.0, 0.01);
  } else {
    EXPECT_EQ(llm.params, row.total) << "off by " << llm.params - row.total;
    EXPECT_EQ(llm.active_params, row.active) << "off by " << llm.active_params - row.active;
    EXPECT_EQ(llm.active_params_no_input_embedding, row.active_no_input);
  }
  EXPECT_EQ(2.0 * llm.kv_elements_per_token, row.kv_bytes);
  if (row.mtp >= 0) {
    EXPECT_EQ(llm.mtp_params, row.mtp);
  }
  EXPECT_NEAR(llm.params / row.published, 1.0, 0.03) << "published figures are rounded";
}

TEST_P(EveryConfig, IsConsistent) {
  const Llm llm = load_llm(GetParam().model);
  ASSERT_FALSE(llm.stacks.empty());
  double layers = 0;
  for (const StackSpec& stack : llm.stacks) {
    EXPECT_GT(stack.hidden, 0);
    EXPECT_FALSE(stack.order.empty());
    for (const int kind : stack.order) {
      ASSERT_GE(kind, 0);
      ASSERT_LT(static_cast<std::size_t>(kind), stack.kinds.size());
    }
    for (const LayerSpec& kind : stack.kinds) {
      EXPECT_GT(kind.params, 0);
      EXPECT_LE(kind.active_params, kind.params);
      EXPECT_LT(kind.expert_params, kind.params);
      EXPECT_TRUE(kind.mixer || kind.ffn);
      LayerSpec again = kind;
      count_layer(again, stack.hidden);
      EXPECT_EQ(again.params, kind.params);
    }
    layers += stack_layer_params(stack) + stack.other_params;
  }
  EXPECT_EQ(layers + llm.embedding_params + llm.head_params, llm.params);
  EXPECT_LE(llm.active_params_no_input_embedding, llm.active_params);
  if (llm.tied_embeddings) {
    EXPECT_EQ(llm.head_params, 0);
  }
}

std::string test_name(const ::testing::TestParamInfo<Row>& info) {
  std::string name = info.param.model;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryConfig, ::testing::ValuesIn(read_table()), test_name);

TEST(Configs, AllAreInTheTable) {
  std::vector<std::string> table;
  for (const Row& row : read_table()) table.push_back(row.model);
  std::sort(table.begin(), table.end());
  EXPECT_EQ(table, llm_names());
}

}  // namespace
}  // namespace plumbline::llm_configs_test
