// Published tables of whole models on one GPU and on several (data/measurements), held-out rows against the stacks that
// ran them. data/measurements/README.md has what each table leaves open, docs/accuracy.md the figures.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "validate/statistics.hpp"
#include "validate/step/model_report.hpp"

namespace plumbline::published_steps_test {
namespace {

struct Table {
  std::string name, file, gpu;
  bool several = false;  ///< rows of several GPUs, else of one
  std::size_t rows = 0;
  double median_at_most = 0, tenth_at_most = 0;  ///< percent
  std::size_t refused = 0;                       ///< rows that are not modelled
};

std::vector<Table> tables() {
  const std::string ft = "fastertransformer/a100_sxm/", trt = "tensorrt_llm/h100_sxm/steps";
  return {{"FasterTransformer GPT", ft + "gpt", "a100_sxm", false, 29, 3, 36},
          {"FasterTransformer GPT", ft + "gpt", "a100_sxm", true, 70, 7, 18},
          {"FasterTransformer BERT", ft + "bert", "a100_sxm", false, 12, 5, 12},
          {"TensorRT-LLM 0.5, 0.6", trt, "h100_sxm", false, 8, 11, 25},
          {"TensorRT-LLM 0.5, 0.6", trt, "h100_sxm", true, 10, 11, 36},
          {"Splitwise", "splitwise/a100_sxm/steps", "a100_sxm", true, 30, 5, 18},
          {"Splitwise", "splitwise/h100_sxm/steps", "h100_sxm", true, 9, 5, 28},
          {"llm-foundry", "llm_foundry/a100_sxm/iterations", "a100_sxm", true, 28, 7, 12},
          {"llm-foundry", "llm_foundry/h100_sxm/iterations", "h100_sxm", true, 13, 22, 28},
          {"Megatron-Bridge", "megatron_bridge/h100_sxm/iterations", "h100_sxm", true, 10, 9, 55},
          {"torchtitan", "torchtitan/h100_96gb/iterations", "h100_96gb", true, 7, 16, 24}};
}

std::vector<double> errors_of(const Table& table, std::vector<std::string>& wrong) {
  const std::string path = data_folder() + "/measurements/" + table.file + ".heldout.csv";
  ModelRows rows;
  read_model_rows(read_text_file(path), path, {}, rows);
  std::erase_if(rows.rows, [&](const ModelRow& row) { return (row.gpus > 1) != table.several; });
  ModelPricing pricing;
  pricing.gpu = table.gpu;
  if (rows.rows.front().phase == "train") pricing.clock = ClockMode::steady;
  std::vector<double> errors;
  for (const ModelComparison& row : price_model_rows(rows.rows, pricing)) {
    if (!row.compared.modelled()) wrong.push_back(row.compared.place + ": " + row.compared.error);
    else errors.push_back(100 * std::abs(std::log(row.compared.predicted / row.compared.measured)));
    if (row.row.held_out == HeldOut::no) wrong.push_back(row.compared.place + ": is a training row");
  }
  return errors;
}

TEST(PublishedSteps, HeldOutRowsAreMetAsOftenAsThePageSays) {
  for (const Table& table : tables()) {
    SCOPED_TRACE(table.name + (table.several ? ", several GPUs" : ", one GPU"));
    std::vector<std::string> wrong;
    const std::vector<double> errors = errors_of(table, wrong);
    EXPECT_EQ(wrong.size(), table.refused) << (wrong.empty() ? "" : wrong.front());
    ASSERT_EQ(errors.size(), table.rows);
    EXPECT_LE(median(errors), table.median_at_most);
    EXPECT_LE(quantile(errors, 0.9), table.tenth_at_most);
  }
}

}  // namespace
}  // namespace plumbline::published_steps_test
