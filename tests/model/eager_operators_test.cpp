// Launch lists of eager training (hf-sdpa) against the operators that PyTorch's dispatcher ran for the same models of transformers
// 5.17 on the device `meta`, under autocast on fake CUDA tensors (tools/eager_operators.py --record): of each pass and group how
// many of at least 2 MB, and the bytes that they move.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/csv.hpp"
#include "tests/support/places.hpp"

namespace plumbline::eager_operators_test {
namespace {

using Group = std::pair<std::string, std::string>;  // pass, group

struct Sum {
  double count = 0, bytes = 0;
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// As the tool groups launches. Gathers of embeddings and their gradients stand in neither list.
std::string group_of(std::string_view name, const Node& node) {
  const std::string_view op = op_name(node.op);
  if (op.starts_with("attention")) return "attention";
  if (op == "gemm" || op == "grouped_gemm" || name == "conv1d.taps" || name == "conv1d.d_dw") return "matrix";
  if (name.starts_with("loss_")) return "loss";
  if (contains(name, "norm.d_bias_")) return "other";  // the gradient of a table
  const bool places = name.ends_with("norm.places") || contains(name, "norm.d_places_");
  if (places && !name.ends_with("places_sum")) return "other";
  const bool kept =
      contains(name, "drop") || contains(name, "mask") || contains(name, "scale") || contains(name, "norm");
  for (const std::string_view table : {"words", "places", "types", "gather", "positions", "past", "d_"}) {
    if (!kept && name.starts_with("embedding.") && name.substr(10).starts_with(table)) return "other";
  }
  for (const std::string_view part : {"cap", "tanh", "scale", ".bias", "d_from_fp32"}) {
    if (contains(name, "lm_head") && contains(name, part)) return "loss";
  }
  for (const std::string_view sum : {".mean",
                                     ".square_mean",
                                     ".d_row_sum",
                                     ".d_negated_row_sum",
                                     ".d_second_row_sum",
                                     ".d_dw",
                                     ".d_db",
                                     ".d_dense_db",
                                     "norm.d_rows",
                                     "norm.d_columns",
                                     "norm.d_last_rows",
                                     "norm.d_last_columns",
                                     ".d_norm_rows",
                                     ".d_norm_columns",
                                     ".d_sum_keys",
                                     ".d_sum_values",
                                     ".d_sum_alpha",
                                     ".d_sum_alpha_n",
                                     "places_sum",
                                     ".d_sum_table",
                                     ".d_table_db",
                                     ".d_table_norm_rows",
                                     ".all",
                                     ".d_sum_bias"}) {
    if (name.ends_with(sum)) return "reductions";
  }
  return "element_wise";
}

/// Bytes that a launch moves; what reads a row more than once counts once.
double bytes_of(std::string_view name, const Node& node) {
  if (const auto* custom = std::get_if<CustomOp>(&node.op)) {
    double read = custom->read.in(units::B);
    if (contains(name, "log_softmax")) read *= node.pass == Pass::forward ? 1.0 / 3 : 2.0 / 3;
    return read + custom->write.in(units::B);
  }
  const auto* row = std::get_if<Rowwise>(&node.op);
  if (row == nullptr) return 0;
  const double element = bits(single_dtype(node.op)) / 8.0,
               n = static_cast<double>(row->rows) * static_cast<double>(row->cols);
  const bool two = row->kind == RowwiseKind::add || node.pass == Pass::backward;
  return (two ? 3 : 2) * element * n;
}

/// A config of data/models, or of this room's own families, with so many layers, and lists of layers cut to as many.
Llm cut(const std::string& model, std::size_t layers) {
  const std::string own = testing_support::tests_folder() + "/model/eager_models/" + model + ".json";
  Llm llm = load_llm(std::filesystem::exists(own) ? own : model);
  for (StackSpec& stack : llm.stacks) stack.order.resize(layers);
  return llm;
}

std::map<Group, Sum> launches_of(const std::string& model, std::int64_t batch, std::int64_t tokens, std::size_t layers,
                                 bool autocast) {
  Workload w;
  w.phase = Phase::train;
  if (autocast) {
    w.training.gradient_given = true;
    w.training.gradient = DType::fp32;
  }
  w.batch = batch;
  w.prompt = tokens;
  w.fusion = Fusion::none;
  w.fused_attention = true;
  const Machine machine = machines().get({"h200_sxm", MachineOptions{"hf-sdpa"}});
  const StepPrediction step = predict(cut(model, layers), w, machine, RunOptions{Runtime::eager});
  std::map<Group, Sum> found;
  for (const NodePrediction& n : step.nodes) {
    const Node& node = *n.node;
    if (node.pass != Pass::forward && node.pass != Pass::backward) continue;
    const std::string_view name = node.name;
    const std::string group = group_of(name, node);
    const double bytes = bytes_of(name, node), count = static_cast<double>(node.count);
    if (group != "attention" && group != "matrix" && bytes < 2e6) continue;
    Sum& sum = found[{node.pass == Pass::forward ? "forward" : "backward", group}];
    sum.count += count;
    sum.bytes += count * bytes;
  }
  return found;
}

/// Of BART's kin gradients of the encoder's output, of T5 those and of the two stacks' biases are added up over layers, the
/// first one to nothing; ours are launches of every layer.
double first_of_sums(std::string_view model, std::string_view pass, std::string_view group) {
  if (pass != "backward" || group != "element_wise") return 0;
  if (model.starts_with("t5")) return 3;
  const auto is = [&model](std::string_view family) { return model.starts_with(family); };
  return is("bart") || is("pegasus") || is("nllb") || is("blenderbot") ? 1 : 0;
}

/// Asks it of each line of a file of tests/model; how many there are.
std::size_t held_to(const std::string& file, bool autocast) {
  const std::string path = testing_support::tests_folder() + "/model/" + file;
  const std::string text = read_text_file(path);
  CsvReader reader(text, path);
  reader.next();
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::map<Group, Sum>> made;
  std::size_t rows = 0;
  while (reader.next()) {
    const auto& f = reader.fields();
    const std::string model(f[0]), layers(f[1]), batch(f[2]), tokens(f[3]);
    auto& launches = made[{model, layers, batch, tokens}];
    if (launches.empty()) {
      launches = launches_of(model, std::stoll(batch), std::stoll(tokens), std::stoul(layers), autocast);
    }
    const Sum ours = launches[{std::string(f[4]), std::string(f[5])}];
    const double count = std::stod(std::string(f[6])), gigabytes = std::stod(std::string(f[7]));
    const std::string place = model + " " + std::string(f[4]) + " " + std::string(f[5]);
    EXPECT_NEAR(ours.count - first_of_sums(model, f[4], f[5]), count, 2) << place;
    if (f[5] != "matrix" && f[5] != "attention") {
      EXPECT_NEAR(ours.bytes / 1e9, gigabytes, 0.03 * gigabytes + 0.01) << place;
    }
    ++rows;
  }
  return rows;
}

TEST(EagerOperators, LaunchesAreWhatTheDispatcherRan) { EXPECT_GE(held_to("eager_operators.csv", false), 150U); }

TEST(EagerOperators, LaunchesUnderAutocastAreWhatTheDispatcherRan) {
  EXPECT_GE(held_to("eager_operators.autocast.csv", true), 150U);
}

}  // namespace
}  // namespace plumbline::eager_operators_test
