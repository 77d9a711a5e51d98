// predict-model gpu, list, and the commands that are understood but not modelled yet.
#include <CLI/CLI.hpp>

#include "arch/fabric/cluster.hpp"
#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/cli/common.hpp"
#include "model/report/gpu_page.hpp"
#include "model/stacks/stack.hpp"
#include "ops/llm/llm.hpp"
#include "ops/table/text.hpp"

namespace plumbline::cli {
namespace {

struct GpuFlags {
  MachineFlags machine;
  OutputFlags output;
};

ExitCode run_gpu(const GpuFlags& f) {
  const Gpu card = load_gpu(f.machine.gpu, f.machine.overrides);
  const GpuPage page = gpu_page(card);
  switch (f.output.format) {
    case Format::json: deliver(f.output, gpu_page_json(page)); break;
    case Format::html: deliver(f.output, gpu_page_html(page)); break;
    default: deliver(f.output, gpu_page_table(page, style_for(f.output)));
  }
  return ExitCode::done;
}

std::string gpus_list(const TextStyle& style) {
  using enum Columns::Align;
  Columns table({{"gpu"},
                 {"title"},
                 {"arch"},
                 {"SMs", right},
                 {"boost", right},
                 {"bf16/fp16 tensor", right},
                 {"memory", right},
                 {"bandwidth", right},
                 {"L2", right},
                 {"TDP", right}});
  for (const std::string& name : gpu_names()) {
    const Gpu g = load_gpu(name);
    const FlopRate bf16 = tensor_peak(g, DType::bf16, g.boost_clock);
    const FlopRate half = bf16 > 0.0 * units::FLOP_per_s ? bf16 : tensor_peak(g, DType::fp16, g.boost_clock);
    table.add({name, g.title, g.architecture, std::to_string(g.sm_count), format(g.boost_clock), format(half),
               format_binary(g.memory.capacity), format(g.memory.bandwidth), format_binary(g.l2.size), format(g.tdp)});
  }
  return table.text(0, style);
}

std::string models_list(const TextStyle& style) {
  using enum Columns::Align;
  Columns table({{"model"},
                 {"type"},
                 {"parameters", right},
                 {"active", right},
                 {"layers", right},
                 {"hidden", right},
                 {"stored as"}});
  for (const std::string& name : llm_names()) {
    const Llm llm = load_llm(name);
    std::size_t layers = 0;
    for (const StackSpec& stack : llm.stacks) layers += stack.order.size();
    table.add({name, llm.model_type, parameter_count(llm.params), parameter_count(llm.active_params),
               std::to_string(layers), std::to_string(llm.hidden),
               llm.quantization.method == "none" ? std::string(plumbline::name(llm.dtype)) : llm.quantization.method});
  }
  return table.text(0, style);
}

std::string clusters_list(const TextStyle& style) {
  using enum Columns::Align;
  Columns table({{"cluster"},
                 {"gpu"},
                 {"per node", right},
                 {"nodes", right},
                 {"inside, each way", right},
                 {"network, each way", right},
                 {"title"}});
  for (const std::string& name : cluster_names()) {
    const Cluster c = load_cluster(name);
    table.add({name, c.gpu, std::to_string(c.gpus_per_node), std::to_string(c.nodes), format(c.intra_bandwidth),
               c.network_bandwidth > 0.0 * units::B_per_s ? format(c.network_bandwidth) : "-", c.title});
  }
  return table.text(0, style);
}

std::string ops_list(const TextStyle& style) {
  Columns table({{"op"}, {"shape keys ([optional])"}});
  for (const std::string& op : op_names()) table.add({op, std::string(op_usage(op))});
  return table.text(0, style);
}

std::string stacks_list(const TextStyle& style) {
  Columns table({{"stack"}, {"providers, in order"}, {"fusion"}, {"runtime"}, {"title"}});
  for (const std::string& name : stack_names()) {
    const Stack& stack = machines().stack(name);
    std::string order;
    for (const Stack::Entry& entry : stack.providers) {
      order += (order.empty() ? "" : ", ") + std::string(entry.provider->name());
    }
    table.add({name, order, std::string(word_of(kFusionWords, stack.fusion)),
               std::string(word_of(kRuntimeWords, stack.runtime)), stack.title});
  }
  return table.text(0, style);
}

std::string parameters_list(const TextStyle& style) {
  Columns table({{"parameter"}, {"unit"}});
  for (const GpuParameter& p : gpu_parameters()) table.add({p.path, p.unit});
  return table.text(0, style) + "\nChanged by --set PARAMETER=VALUE: with its unit, or relative: +20%, -10%, x1.5.\n";
}

enum class Listed { gpus, models, ops, clusters, stacks, parameters };
constexpr std::array<Word<Listed>, 6> kListedWords{{{"gpus", Listed::gpus},
                                                    {"models", Listed::models},
                                                    {"ops", Listed::ops},
                                                    {"clusters", Listed::clusters},
                                                    {"stacks", Listed::stacks},
                                                    {"parameters", Listed::parameters}}};

ExitCode run_list(Listed what, const OutputFlags& output) {
  const TextStyle style = style_for(output);
  switch (what) {
    case Listed::gpus: deliver(output, gpus_list(style)); break;
    case Listed::models: deliver(output, models_list(style)); break;
    case Listed::ops: deliver(output, ops_list(style)); break;
    case Listed::clusters: deliver(output, clusters_list(style)); break;
    case Listed::stacks: deliver(output, stacks_list(style)); break;
    case Listed::parameters: deliver(output, parameters_list(style)); break;
  }
  return ExitCode::done;
}

}  // namespace

void add_gpu_command(CLI::App& root, Action& action) {
  auto flags = std::make_shared<GpuFlags>();
  CLI::App* app = root.add_subcommand("gpu", "how fast a card can be: peaks, ridge points, occupancy limits");
  app->add_option("GPU", flags->machine.gpu, "a name from 'predict-model list gpus', or a descriptor file")
      ->required()
      ->type_name("NAME|FILE.json");
  add_set_flag(*app, flags->machine);
  add_output_flags(*app, flags->output, {Format::table, Format::json, Format::html});
  app->footer("Example:\n  predict-model gpu h200 --set memory.bandwidth=6TB/s");
  app->callback([flags, &action] { action = [flags] { return run_gpu(*flags); }; });
}

void add_list_command(CLI::App& root, Action& action) {
  struct ListFlags {
    Listed what = Listed::gpus;
    OutputFlags output;
  };
  auto flags = std::make_shared<ListFlags>();
  CLI::App* app =
      root.add_subcommand("list", "what is known by name: gpus, models, ops, clusters, stacks or parameters");
  add_choice(*app, "WHAT", kListedWords, flags->what, "what to list", false)->required();
  app->callback([flags, &action] { action = [flags] { return run_list(flags->what, flags->output); }; });
}

void add_later_commands(CLI::App& root, Action& action) {
  static constexpr std::array<std::array<const char*, 2>, 4> kLater{
      {{"sweep", "a grid or list of predictions (not modelled yet)"},
       {"sensitivity", "which parameter matters (not modelled yet)"},
       {"solve", "what value reaches a target (not modelled yet)"},
       {"diff", "two machines side by side (not modelled yet)"}}};
  for (const auto& [name, help] : kLater) {
    CLI::App* app = root.add_subcommand(name, help);
    app->prefix_command();  // its arguments are not judged yet
    app->callback([&action] { action = []() -> ExitCode { throw NotModelled("not modelled yet"); }; });
  }
}

}  // namespace plumbline::cli
