// predict-model cluster: what follows from a fabric.

#include "arch/fabric/cluster.hpp"
#include "model/cli/common.hpp"
#include "model/report/several_gpus/cluster_page.hpp"

namespace plumbline::cli {
namespace {

struct ClusterFlags {
  MachineFlags machine;
  OutputFlags output;
};

ExitCode run_cluster(ClusterFlags f) {
  f.machine.gpu = load_cluster(f.machine.cluster).gpu;
  const ClusterPage page = cluster_page(open_machine(f.machine));
  const bool json = f.output.format == Format::json;
  deliver(f.output, json ? cluster_page_json(page) : cluster_page_table(page, style_for(f.output)));
  return ExitCode::done;
}

}  // namespace

void add_cluster_command(const Command& root, Action& action) {
  auto flags = std::make_shared<ClusterFlags>();
  const Command app = root.subcommand("cluster", "what joins several GPUs: tiers, bisection, what collectives reach");
  app.text("CLUSTER", "NAME|FILE.json", "a name from 'predict-model list clusters', or a file", flags->machine.cluster)
      .required();
  add_set_flag(app, flags->machine);
  add_stack_flags(app, flags->machine.stack);
  add_output_flags(app, flags->output, {Format::table, Format::json});
  app.footer("Example:\n  predict-model cluster dgx_h200");
  app.when_chosen([flags, &action] { action = [flags] { return run_cluster(*flags); }; });
}

}  // namespace plumbline::cli
