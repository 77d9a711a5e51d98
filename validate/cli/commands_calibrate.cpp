// `validate --calibrate`: probes on the card at hand, or as recorded, into a calibration document.
#include <ostream>

#include "arch/files.hpp"
#include "validate/cli/commands.hpp"
#include "validate/fit/calibrate.hpp"

namespace plumbline {

ExitCode run_calibrate(const ValidateRequest& request, const RunProbes& probe, std::ostream& out,
                       std::ostream& messages) {
  need_writable(request.out_file);
  need_writable(request.probes_file);
  // Nothing that can be known before a minute and a half of probing may fail after it.
  if (!request.gpu.empty()) load_gpu(request.gpu, request.overrides);
  if (!request.calibration_file.empty()) {
    parse_calibration(read_text_file(request.calibration_file), request.calibration_file);
  }
  const bool replay = !request.files.empty();
  const ProbeRun run = replay ? parse_probe_run(read_text_file(request.files.front()), request.files.front())
                              : probe(!request.quick, [&](const std::string& line) { messages << line << std::endl; });
  if (!request.probes_file.empty()) write_text_file(request.probes_file, probe_run_json(run));
  Gpu gpu = gpu_of(run, request.gpu);
  if (!request.overrides.empty()) gpu = load_gpu(request.gpu.empty() ? gpu.name : request.gpu, request.overrides);
  const Calibration base = calibration_for(gpu, request.calibration_file);
  const Calibration made = calibrated(gpu, run, base);
  messages << calibration_table(made, base);
  if (request.out_file.empty()) out << to_json(made);
  else write_text_file(request.out_file, to_json(made));
  return ExitCode::done;
}

}  // namespace plumbline
