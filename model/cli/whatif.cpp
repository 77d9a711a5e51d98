// predict-model sensitivity, solve and diff.
#include <algorithm>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/cli/common.hpp"
#include "model/cli/model_flags.hpp"
#include "model/cli/study_words.hpp"
#include "model/question/question.hpp"
#include "model/report/study/whatif_report.hpp"
#include "model/study.hpp"

namespace plumbline::cli {
namespace {

struct WhatIfFlags {
  std::vector<std::string> words;
  std::int64_t top = 0;
  OutputFlags output;
  SolveQuestion question;
  std::string vary;
  bool most = false, least = false;
};

ExitCode run_sensitivity(const WhatIfFlags& f) {
  const Study study = study_of_words(f.words);
  const Sensitivity result = sensitivity(study);
  const SensitivityReport report{study, result, f.top};
  switch (f.output.format) {
    case Format::json: deliver(f.output, sensitivity_json(report)); break;
    case Format::csv: deliver(f.output, sensitivity_csv(report)); break;
    case Format::html: deliver(f.output, sensitivity_html(report)); break;
    case Format::svg: deliver(f.output, sensitivity_svg(report)); break;
    default: deliver(f.output, sensitivity_table(report, style_for(f.output)));
  }
  return ExitCode::done;
}

/// A number of a descriptor in its unit, as SI; a whole number.
double bound_of(const std::string& text, const std::string& unit) {
  if (unit.find("B/s") != std::string::npos) return parse_bandwidth(text).in(units::B_per_s);
  if (unit.find("Hz") != std::string::npos) return parse_hertz(text).in(units::Hz);
  if (unit.find("iB") != std::string::npos) return parse_bytes(text).in(units::B);
  if (unit.find("FLOP/s") != std::string::npos) return parse_flop_rate(text).in(units::FLOP_per_s);
  if (unit == "W") return parse_watts(text).in(units::W);
  if (unit.find("ns") != std::string::npos) return parse_seconds(text).in(units::s);
  return static_cast<double>(whole_number("--vary", text, 1));
}

/// "memory.bandwidth", "batch", "tdp=300W:1000W".
SolveQuestion solve_question(const WhatIfFlags& f) {
  SolveQuestion q = f.question;
  const std::size_t equals = f.vary.find('=');
  q.name = f.vary.substr(0, equals);
  std::string unit;
  for (const GpuParameter& each : gpu_parameters()) {
    if (each.path != q.name && "set." + each.path != q.name) continue;
    unit = each.unit;
    q.name = "set." + each.path;
    break;
  }
  if (unit.empty() && q.name.find('.') != std::string::npos && !q.name.starts_with("set.")) q.name = "set." + q.name;
  if (equals != std::string::npos) {
    const std::string range = f.vary.substr(equals + 1);
    const std::size_t colon = range.find(':');
    if (colon == std::string::npos) throw BadInput("--vary: expected NAME=FROM:TO, found '" + f.vary + "'");
    q.from = bound_of(range.substr(0, colon), unit);
    q.to = bound_of(range.substr(colon + 1), unit);
  }
  const bool usually_most = q.name == "batch" || q.name == "context" || q.name == "prompt" || q.name == "output";
  if (f.most && f.least) throw BadInput("--most: expected one of --most and --least");
  q.largest = f.most || (usually_most && !f.least);
  return q;
}

ExitCode run_solve(const WhatIfFlags& f) {
  const Study study = study_of_words(f.words);
  const SolveQuestion question = solve_question(f);
  const Solution result = solve(study, question);
  const SolveReport report{study, question, result};
  switch (f.output.format) {
    case Format::json: deliver(f.output, solve_json(report)); break;
    case Format::html: deliver(f.output, solve_html(report)); break;
    case Format::svg: deliver(f.output, solve_svg(report)); break;
    default: deliver(f.output, solve_table(report, style_for(f.output)));
  }
  return result.found ? ExitCode::done : ExitCode::answered_no;
}

ExitCode run_diff(const WhatIfFlags& f) {
  const auto against = std::find(f.words.begin(), f.words.end(), "--against");
  if (against == f.words.end()) throw BadInput("expected --against and the second side's flags");
  const std::vector<std::string> first(f.words.begin(), against);
  std::vector<std::string> both = first;  // what the second side does not say is the first's
  both.insert(both.end(), against + 1, f.words.end());
  if (both.size() == first.size()) throw BadInput("--against: expected flags behind it, found none");
  const Study before = study_of_words(first), after = study_of_words(both);
  const StudyDifference result = difference(before, after);
  const DiffReport report{before, after, result, f.top};
  switch (f.output.format) {
    case Format::json: deliver(f.output, diff_json(report)); break;
    case Format::csv: deliver(f.output, diff_csv(report)); break;
    case Format::html: deliver(f.output, diff_html(report)); break;
    case Format::svg: deliver(f.output, diff_svg(report)); break;
    default: deliver(f.output, diff_table(report, style_for(f.output)));
  }
  return ExitCode::done;
}

void when_chosen(const Command& app, const std::shared_ptr<WhatIfFlags>& flags, Action& action,
                 ExitCode (*run)(const WhatIfFlags&)) {
  app.when_chosen([flags, app, run, &action] {
    flags->words = app.others();
    action = [flags, run] { return run(*flags); };
  });
}

}  // namespace

void add_sensitivity_command(const Command& root, Action& action) {
  auto flags = std::make_shared<WhatIfFlags>();
  const Command app = root.subcommand("sensitivity", "which number of the descriptor matters, and what 10 % more buys");
  app.leave_others();
  add_whole(app, "--top", "the N numbers of a table that matter most [all that have an effect]", flags->top, 1);
  add_output_flags(app, flags->output, {Format::table, Format::json, Format::csv, Format::html, Format::svg});
  app.footer(
      "First comes llm, op NAME, or a study's file without axes; then flags of that command. An elasticity is what a\n"
      "figure changes by, in percent, for each percent of the number. JSON has every operator's gain. Example:\n"
      "  predict-model sensitivity llm --model llama-3.1-8b --gpu h200 --phase decode --batch 32");
  when_chosen(app, flags, action, run_sensitivity);
}

void add_solve_command(const Command& root, Action& action) {
  auto flags = std::make_shared<WhatIfFlags>();
  const Command app = root.subcommand("solve", "what value of a number meets targets");
  app.leave_others();
  app.text("--vary", "NAME[=FROM:TO]", "a number of the descriptor, or batch, context, gpus, tp, ...", flags->vary)
      .required();
  app.repeated("--target", "CONDITION", "a figure to reach, in SI units: 'latency_s<=0.010' (repeatable; all hold)",
               [flags](const std::string& text) { flags->question.targets.push_back(text); })
      .required();
  app.toggle("--most", "the largest value [of batch and lengths]", flags->most);
  app.toggle("--least", "the least value [of all others]", flags->least);
  add_output_flags(app, flags->output, {Format::table, Format::json, Format::html, Format::svg});
  app.footer(
      "First comes llm, op NAME, or a study's file without axes; then flags of that command. Models fit in\n"
      "memory too.\n"
      "Exit code 1: no value meets the targets; the nearest is printed, with what limits it. Examples:\n"
      "  predict-model solve llm --model llama-3.1-8b --gpu h200 --phase decode --batch 64 \\\n"
      "    --vary memory.bandwidth --target 'latency_s<=0.006'\n"
      "  predict-model solve llm --model llama-3.1-70b --gpu h200 --phase decode --gpus 4 --vary batch \\\n"
      "    --target 'latency_s<=0.030' --target 'power_W<=600'");
  when_chosen(app, flags, action, run_solve);
}

void add_diff_command(const Command& root, Action& action) {
  auto flags = std::make_shared<WhatIfFlags>();
  const Command app = root.subcommand("diff", "two machines, models, stacks or plans side by side");
  app.leave_others();
  add_whole(app, "--top", "the N operators of a table that change most [all]", flags->top, 1);
  add_output_flags(app, flags->output, {Format::table, Format::json, Format::csv, Format::html, Format::svg});
  app.footer(
      "First comes llm, op NAME, or a study's file without axes; then flags of that command; then --against and what\n"
      "differs on the second side. Examples:\n"
      "  predict-model diff llm --model llama-3.1-8b --phase decode --batch 32 --gpu h100 --against --gpu h200\n"
      "  predict-model diff op gemm M=4096 N=4096 K=700 --gpu h200 --against K=704");
  when_chosen(app, flags, action, run_diff);
}

}  // namespace plumbline::cli
