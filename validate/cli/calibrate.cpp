#include "validate/cli/calibrate.hpp"

#include <ostream>

#include "arch/files.hpp"
#include "validate/fit/calibrate.hpp"

namespace plumbline {

ExitCode run_calibrate(const CalibrateRequest& request, const RunProbes& probe, std::ostream& out,
                       std::ostream& messages) {
  need_writable(request.out_file);
  need_writable(request.probes_file);
  // Nothing that can be known before a minute and a half of probing may fail after it.
  if (!request.card.gpu.empty()) load_gpu(request.card.gpu, request.card.overrides);
  if (!request.card.calibration_file.empty()) {
    parse_calibration(read_text_file(request.card.calibration_file), request.card.calibration_file);
  }
  const bool replay = !request.recorded.empty();
  const ProbeRun run = replay ? parse_probe_run(read_text_file(request.recorded), request.recorded)
                              : probe(!request.quick, [&](const std::string& line) { messages << line << std::endl; });
  if (run.session.other_processes > 0) {
    MeasuringSession shared;
    shared.other_processes = run.session.other_processes;
    warn_of_shared_card(shared, messages);
  }
  if (!request.probes_file.empty()) write_text_file(request.probes_file, probe_run_json(run));
  Gpu gpu = gpu_of(run, request.card.gpu);
  if (!request.card.overrides.empty())
    gpu = load_gpu(request.card.gpu.empty() ? gpu.name : request.card.gpu, request.card.overrides);
  const Calibration base = calibration_for(gpu, request.card.calibration_file);
  const Calibration made = calibrated(gpu, run, base);
  messages << calibration_table(made, base);
  if (request.out_file.empty()) write_or_print({"json", "", {}}, to_json(made), out);
  else write_text_file(request.out_file, to_json(made));
  return ExitCode::done;
}

}  // namespace plumbline
