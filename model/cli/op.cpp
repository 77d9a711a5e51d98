// predict-model op and ops: one operator explained, and a batch of them from a CSV.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

#include "arch/sink.hpp"
#include "model/cli/common.hpp"
#include "model/question/question.hpp"
#include "model/report/ops_batch.hpp"
#include "model/report/ops_batch_row.hpp"
#include "model/report/remarks.hpp"
#include "model/report/report.hpp"
#include "ops/table/text.hpp"

namespace plumbline::cli {
namespace {

struct OpFlags {
  std::string op, dtype;
  std::vector<std::string> shape;
  MachineFlags machine;
  OutputFlags output;
  PredictOptions predict;
};

enum class Cache { cold, warm };
constexpr std::array<Word<Cache>, 2> kCacheWords{{{"cold", Cache::cold}, {"warm", Cache::warm}}};

void add_cache_flag(const Command& app, PredictOptions& options) {
  app.value(
      "--cache", joined_words(kCacheWords),
      "operands come from DRAM, or lie in L2 from the run before where they fit [cold]",
      [&options](const std::string& text) { options.warm = chosen_word("--cache", kCacheWords, text) == Cache::warm; });
}

ExitCode run_op(const OpFlags& f) {
  std::string shape;
  for (const std::string& word : f.shape) shape += (shape.empty() ? "" : ";") + word;
  const Op op = parse_op(f.op, f.dtype, shape);
  const auto machine = open_machine(f.machine);
  check_warm(op, f.predict);
  Predictor predictor;
  const OpPrediction prediction = predictor.predict(op, machine, f.predict);
  refuse_idle_attention(f.machine.stack, {prediction.provider}, std::string(op_name(op)));
  refuse_idle_collective(f.machine.stack, has_said_way(f.machine.stack, op), std::string(op_name(op)));
  const std::vector<std::string> remarks = cap_remarks(machine, prediction.power);
  tell_beside(f.output, remarks);
  const OpReport report{op,
                        machine,
                        f.machine.clock,
                        prediction,
                        f.predict.warm,
                        remarks,
                        advise(op, prediction, machine, predictor, f.predict)};
  switch (f.output.format) {
    case Format::json: deliver(f.output, op_json(report)); break;
    case Format::csv: deliver(f.output, op_csv(report)); break;
    case Format::html: deliver(f.output, op_html(report)); break;
    default: deliver(f.output, op_table(report, style_for(f.output)));
  }
  return ExitCode::done;
}

struct OpsFlags {
  std::string in;
  MachineFlags machine;
  PredictOptions predict;
  std::string out;
};

/// A file or stdin as blocks of bytes.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : place_(path.empty() || path == "-" ? "stdin" : path) {
    if (place_ == "stdin") return;
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) throw BadInput(place_ + ": expected a file, found a folder");
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw BadInput(place_ + ": cannot be opened for reading: " + std::strerror(errno));
  }
  ~InputFile() {
    if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& place() const { return place_; }
  std::size_t read(char* to, std::size_t most) const {
    for (;;) {
      const ssize_t got = ::read(descriptor_, to, most);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw BadInput(place_ + ": read failed: " + std::strerror(errno));
    }
  }

 private:
  std::string place_;
  int descriptor_ = STDIN_FILENO;
};

/// One a core: reading and writing cost little beside predicting.
int worker_count() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u)); }

ExitCode run_ops(const OpsFlags& f) {
  const auto machine = open_machine(f.machine);
  const InputFile in(f.in);
  OutputSink out(f.out);
  BatchOptions options;
  options.place = in.place();
  options.workers = worker_count();
  options.predict = f.predict;
  const BatchOutcome outcome = predict_batch([&in](char* to, std::size_t most) { return in.read(to, most); },
                                             [&out](std::string_view text) { out.write(text); }, machine, options);
  out.commit();
  if (outcome.over_cap > 0) {
    std::cerr << "predict-model ops: the power cap cannot be met in " << outcome.over_cap << " of " << outcome.rows
              << " rows, even at the lowest clock\n";
  }
  for (const std::string& remark : cap_remarks(machine, Watts{})) std::cerr << "predict-model ops: " << remark << "\n";
  if (!f.machine.stack.attention.empty() && outcome.by_attention == 0) {
    std::cerr << "predict-model ops: --attention " << f.machine.stack.attention << " ran no operator of these rows\n";
  }
  if (outcome.bugs > 0) {
    std::cerr << "plumbline: internal error: " << outcome.bugs << " of " << outcome.rows
              << " rows failed inside the model (reasons in the column 'error')\n";
    return ExitCode::our_bug;
  }
  if (outcome.refused > 0) {
    std::cerr << "predict-model ops: " << outcome.refused << " of " << outcome.rows
              << " rows could not be modelled (reasons in the column 'error')\n";
    return ExitCode::not_modelled;
  }
  return ExitCode::done;
}

}  // namespace

void add_op_command(const Command& root, Action& action) {
  auto flags = std::make_shared<OpFlags>();
  const Command app = root.subcommand("op", "one operator, explained");
  app.text("OP", "", "a name from 'predict-model list ops'", flags->op).required();
  app.texts("SHAPE", "key=value", "its shape: M=4096 N=4096 K=4096", flags->shape);
  app.text("--dtype", "D", "bf16, fp16, fp8, fp32, ... [bf16]", flags->dtype);
  add_machine_flags(app, flags->machine);
  add_cache_flag(app, flags->predict);
  add_output_flags(app, flags->output, {Format::table, Format::json, Format::csv, Format::html});
  app.footer(
      "Examples:\n"
      "  predict-model op gemm M=4096 N=4096 K=4096 --gpu h200\n"
      "  predict-model op attention_decode B=32 Hq=32 Hkv=8 D=128 S=4096 --gpu h200 --kernels library\n"
      "  predict-model op rmsnorm rows=4096 cols=8192 --gpu a100_sxm --format json");
  app.when_chosen([flags, &action] { action = [flags] { return run_op(*flags); }; });
}

void add_ops_command(const Command& root, Action& action) {
  auto flags = std::make_shared<OpsFlags>();
  const Command app = root.subcommand("ops", "a batch of operators: CSV in, CSV out");
  add_machine_flags(app, flags->machine);
  add_cache_flag(app, flags->predict);
  app.text("--in", "FILE", "CSV with columns op, shape and optionally dtype; others pass through [stdin]", flags->in);
  app.text("--out", "FILE", "write to this file (beside it first, then renamed) instead of stdout", flags->out);
  app.footer(
      "Adds latency_us, latency_low_us, latency_high_us, limiter, flops, dram_bytes, power_W, energy_J, sm_clock_MHz,\n"
      "provenance, kernel_us (without the gap between launches), error. A row that can't be modelled has its\n"
      "reason in 'error'; the others are written, exit code 3.\n"
      "Example:\n"
      "  printf 'op,dtype,shape\\ngemm,bf16,M=64;N=4096;K=4096\\n' | predict-model ops --gpu h200");
  app.when_chosen([flags, &action] { action = [flags] { return run_ops(*flags); }; });
}

}  // namespace plumbline::cli
