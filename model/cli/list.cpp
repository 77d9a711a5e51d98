// predict-model list: what is known by name.

#include "arch/fabric/cluster.hpp"
#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/cli/common.hpp"
#include "model/report/listing.hpp"
#include "model/stacks/stack.hpp"
#include "ops/llm/llm.hpp"
#include "ops/table/text.hpp"

namespace plumbline::cli {
namespace {

using enum Columns::Align;

Listing::Cell count(std::int64_t n) { return {std::to_string(n), static_cast<double>(n)}; }

Listing::Cell rate(Bandwidth bandwidth) { return {format(bandwidth), bandwidth.in(units::B_per_s)}; }

Listing gpus() {
  Listing list({{"gpu", "gpu"},
                {"title", "title"},
                {"arch", "architecture"},
                {"SMs", "sm_count", right},
                {"boost", "boost_clock_Hz", right},
                {"bf16/fp16 tensor", "tensor_16bit_FLOP_per_s", right},
                {"memory", "memory_bytes", right},
                {"bandwidth", "bandwidth_B_per_s", right},
                {"L2", "l2_bytes", right},
                {"TDP", "tdp_W", right}});
  for (const std::string& name : gpu_names()) {
    const Gpu g = load_gpu(name);
    const FlopRate bf16 = tensor_peak(g, DType::bf16, g.boost_clock);
    const FlopRate half = bf16 > 0.0 * units::FLOP_per_s ? bf16 : tensor_peak(g, DType::fp16, g.boost_clock);
    list.add({name,
              g.title,
              g.architecture,
              count(g.sm_count),
              {format(g.boost_clock), g.boost_clock.in(units::Hz)},
              {format(half), half.in(units::FLOP_per_s)},
              {format_binary(g.memory.capacity), g.memory.capacity.in(units::B)},
              rate(g.memory.bandwidth),
              {format_binary(g.l2.size), g.l2.size.in(units::B)},
              {format(g.tdp), g.tdp.in(units::W)}});
  }
  return list;
}

Listing models() {
  Listing list({{"model", "model"},
                {"type", "type"},
                {"parameters", "params", right},
                {"active", "active_params", right},
                {"layers", "layers", right},
                {"hidden", "hidden", right},
                {"stored as", "stored_as"}});
  for (const std::string& name : llm_names()) {
    const Llm llm = load_llm(name);
    std::size_t layers = 0;
    for (const StackSpec& stack : llm.stacks) layers += stack.order.size();
    list.add({name,
              llm.model_type,
              {parameter_count(llm.params), llm.params},
              {parameter_count(llm.active_params), llm.active_params},
              count(static_cast<std::int64_t>(layers)),
              count(llm.hidden),
              llm.quantization.method == "none" ? std::string(plumbline::name(llm.dtype)) : llm.quantization.method});
  }
  return list;
}

Listing clusters() {
  Listing list({{"cluster", "cluster"},
                {"gpu", "gpu"},
                {"per node", "gpus_per_node", right},
                {"gpus", "gpus", right},
                {"inside, each way", "intra_bandwidth_B_per_s", right},
                {"network, each way", "network_bandwidth_B_per_s", right},
                {"title", "title"}});
  for (const std::string& name : cluster_names()) {
    const Cluster c = load_cluster(name);
    const bool network = c.tiers.size() > 1;
    Listing::Cell outer = rate(network ? c.tiers.back().bandwidth : Bandwidth());
    if (!network) outer.text = "-";
    list.add({name, c.gpu, count(c.gpus_per_node()), count(std::max(c.gpus_per_node(), c.tiers.back().gpus)),
              rate(c.inner().bandwidth), outer, c.title});
  }
  return list;
}

Listing operators() {
  Listing list({{"op", "op"}, {"shape keys ([optional])", "shape_keys"}});
  for (const std::string& op : op_names()) list.add({op, std::string(op_usage(op))});
  return list;
}

Listing stacks() {
  Listing list({{"stack", "stack"},
                {"providers, in order", "providers"},
                {"fusion", "fusion"},
                {"runtime", "runtime"},
                {"title", "title"}});
  for (const std::string& name : stack_names()) {
    const Stack& stack = machines().stack(name);
    std::string order;
    for (const Stack::Entry& entry : stack.providers) {
      order += (order.empty() ? "" : ", ") + std::string(entry.provider->name());
    }
    list.add({name, order, std::string(word_of(kFusionWords, stack.fusion)),
              std::string(word_of(kRuntimeWords, stack.runtime)), stack.title});
  }
  return list;
}

Listing parameters() {
  Listing list({{"parameter", "parameter"}, {"unit", "unit"}});
  for (const GpuParameter& p : gpu_parameters()) list.add({p.path, p.unit});
  return list;
}

/// A list, as it is called for many and for one.
struct Known {
  std::string_view many, one;
  Listing (*list)();
  std::string_view note = "";
};
constexpr auto kKnown =
    std::to_array<Known>({{"gpus", "gpu", gpus},
                          {"models", "model", models},
                          {"ops", "op", operators},
                          {"clusters", "cluster", clusters},
                          {"stacks", "stack", stacks},
                          {"parameters", "parameter", parameters,
                           "\nChanged by --set PARAMETER=VALUE: with its unit, or relative: +20%, -10%, x1.5.\n"}});

const Known& known_list(const std::string& text) {
  std::vector<std::string> names;
  std::string all;
  for (const Known& known : kKnown) {
    if (text == known.many || text == known.one) return known;
    names.emplace_back(known.many);
    all += (all.empty() ? "" : ", ") + names.back();
  }
  throw BadInput("WHAT: expected one of " + all + "; found '" + text + "'" + did_you_mean(text, names));
}

ExitCode run_list(const Known& what, const OutputFlags& output) {
  const Listing list = what.list();
  deliver(output, output.format == Format::json ? list.json() : list.table(style_for(output)) + std::string(what.note));
  return ExitCode::done;
}

}  // namespace

void add_list_command(const Command& root, Action& action) {
  struct ListFlags {
    const Known* what = nullptr;
    OutputFlags output;
  };
  auto flags = std::make_shared<ListFlags>();
  const Command app =
      root.subcommand("list", "what is known by name: gpus, models, ops, clusters, stacks or parameters");
  std::string shape;
  for (const Known& known : kKnown) shape += (shape.empty() ? "" : "|") + std::string(known.many);
  app.value("WHAT", shape, "what to list", [flags](const std::string& text) { flags->what = &known_list(text); })
      .required();
  add_output_flags(app, flags->output, {Format::table, Format::json});
  app.when_chosen([flags, &action] { action = [flags] { return run_list(*flags->what, flags->output); }; });
}

}  // namespace plumbline::cli
