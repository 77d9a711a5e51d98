// predict-model gpu: what follows from a card.

#include "model/cli/common.hpp"
#include "model/report/gpu_page.hpp"

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

}  // namespace

void add_gpu_command(const Command& root, Action& action) {
  auto flags = std::make_shared<GpuFlags>();
  const Command app = root.subcommand("gpu", "how fast a card can be: peaks, ridge points, occupancy limits");
  app.text("GPU", "NAME|FILE.json", "a name from 'predict-model list gpus', or a descriptor file", flags->machine.gpu)
      .required();
  add_set_flag(app, flags->machine);
  add_output_flags(app, flags->output, {Format::table, Format::json, Format::html});
  app.footer("Example:\n  predict-model gpu h200 --set memory.bandwidth=6TB/s");
  app.when_chosen([flags, &action] { action = [flags] { return run_gpu(*flags); }; });
}

}  // namespace plumbline::cli
