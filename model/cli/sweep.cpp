// predict-model sweep: every point of a study, streamed, or the best of them.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "arch/format.hpp"
#include "arch/printable.hpp"
#include "arch/sink.hpp"
#include "model/cli/common.hpp"
#include "model/cli/model_flags.hpp"
#include "model/cli/study_words.hpp"
#include "model/cli/sweep_file.hpp"
#include "model/cli/sweep_ranks.hpp"
#include "model/report/study/sweep_report.hpp"
#include "model/study.hpp"
#include "model/study/points.hpp"

namespace plumbline::cli {
namespace {

/// As many rows as a table or a page is made of.
constexpr std::int64_t kMostRows = 20'000;

struct SweepFlags {
  std::vector<std::string> words;
  std::vector<std::string> where;
  std::string columns, objective, pareto;
  std::int64_t top = 0, threads = 0;
  bool resume = false, progress = false;
  SweepPlot plot = SweepPlot::points;
  Ranks* ranks = nullptr;  ///< null: this process alone
  OutputFlags output;
};

/// "12.3 %, 123,000 of 1,000,000 points, 41,000 a second, 21 s left", ten times a second at most.
class ProgressLine {
 public:
  explicit ProgressLine(bool asked) : terminal_(::isatty(STDERR_FILENO) == 1), shown_(asked || terminal_) {}
  ~ProgressLine() {
    if (terminal_ && said_) std::cerr << "\r\x1b[K";
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const SweepProgress& p, std::int64_t before) {
    if (!shown_) return;
    const auto now = std::chrono::steady_clock::now();
    const double since_last = std::chrono::duration<double>(now - last_).count();
    const double pause = terminal_ ? 0.1 : 1;
    if (since_last < pause && p.done < p.points) return;
    last_ = now;
    const double seconds = std::max(1e-9, std::chrono::duration<double>(now - begin_).count());
    const double rate = static_cast<double>(p.done - before) / seconds;
    if (terminal_ && seconds < 1) return;  // not worth a word
    const double left = rate > 0 ? static_cast<double>(p.points - p.done) / rate : 0;
    const double share = static_cast<double>(p.done) / static_cast<double>(std::max<std::int64_t>(1, p.points));
    const std::string text = percent(share) + ", " + std::to_string(p.done) + " of " + std::to_string(p.points) +
                             " points, " + format(rate) + " a second, " + format(left) + " s left";
    std::cerr << (terminal_ ? "\r\x1b[K" : "predict-model sweep: ") << text << (terminal_ ? "" : "\n") << std::flush;
    said_ = true;
  }

 private:
  bool terminal_, shown_, said_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), last_{};
};

ExitCode exit_of(const SweepProgress& p) {
  if (p.bugs > 0) {
    std::cerr << "plumbline: internal error: " << p.bugs << " of " << p.points
              << " points failed inside the model (reasons in 'error')\n";
    return ExitCode::our_bug;
  }
  if (p.refused == 0) return ExitCode::done;
  std::cerr << "predict-model sweep: " << p.refused << " of " << p.points
            << " points could not be modelled (reasons in 'error')\n";
  return ExitCode::not_modelled;
}

SweepFormat format_of(Format format) {
  switch (format) {
    case Format::jsonl: return SweepFormat::json_lines;
    case Format::json: return SweepFormat::json;
    default: return SweepFormat::csv;
  }
}

ExitCode stream_points(const SweepFlags& f, const Study& study, SweepOptions options) {
  ProgressLine line(f.progress);
  if (!SweepFile::can_be(f.output.file)) {
    if (f.resume) throw BadInput("--resume: expected --out FILE, a regular file");
    if (f.output.file.empty() && f.output.into != nullptr) {
      return exit_of(sweep(study, options, [&f](std::string_view text) { *f.output.into += text; }));
    }
    OutputSink out(f.output.file);
    options.progress = [&line](const SweepProgress& p) { line.show(p, 0); };
    const SweepProgress all = sweep(study, options, [&out](std::string_view text) { out.write(text); });
    out.commit();
    return exit_of(all);
  }
  const std::string identity = study_identity(study) + std::string(word_of(kFormatWords, f.output.format));
  SweepFile out(f.output.file, identity, f.resume);
  options.before = out.before();
  const std::int64_t before = options.before.done;
  options.progress = [&](const SweepProgress& p) {
    out.note(p);
    line.show(p, before);
  };
  const SweepProgress all = sweep(study, options, [&out](std::string_view text) { out.write(text); });
  out.commit();
  return exit_of(all);
}

/// Not oftener is a file of best points written again.
constexpr std::chrono::milliseconds kBetweenNotes{50};

std::string text_of_best(const SweepFlags& f, const SweepReport& report) {
  switch (f.output.format) {
    case Format::table: return sweep_table(report, style_for(f.output));
    case Format::html: return sweep_html(report);
    case Format::svg: return sweep_svg(report, f.plot);
    default: return sweep_lines(report, format_of(f.output.format));
  }
}

StudyRows find_best(const SweepFlags& f, const Study& study, SweepOptions& options, SweepFile* file) {
  ProgressLine line(f.progress);
  std::chrono::steady_clock::time_point noted{};
  if (file != nullptr) {
    options.before = file->before();
    options.best_before = file->best_before();
    options.note = [file, &noted](const SweepProgress& p, const std::vector<std::int64_t>& points) {
      const auto now = std::chrono::steady_clock::now();
      if (now - noted < kBetweenNotes) return;
      noted = now;
      file->note_best(p, points);
    };
  }
  const std::int64_t before = options.before.done;
  options.progress = [&line, before](const SweepProgress& p) { line.show(p, before); };
  return best_points(study, f.top, options, kMostRows);
}

ExitCode show_best(const SweepFlags& f, const Study& study, SweepOptions options) {
  std::optional<SweepFile> file;
  if (SweepFile::can_be(f.output.file)) {
    const std::string identity = study_identity(study) + std::string(word_of(kFormatWords, f.output.format)) +
                                 (f.top > 0 ? "-" + std::to_string(f.top) : "");
    file.emplace(f.output.file, identity, f.resume);
  } else if (f.resume) {
    throw BadInput("--resume: expected --out FILE, a regular file");
  }
  const StudyRows rows = find_best(f, study, options, file ? &*file : nullptr);
  const std::string text = text_of_best(f, {study, rows, f.top});
  if (file) {
    file->write(text);
    file->commit();
  } else {
    deliver(f.output, text);
  }
  if (rows.rows.empty() && rows.counts.refused == 0) std::cerr << "predict-model sweep: no point is left\n";
  const ExitCode exit = exit_of(rows.counts);
  return exit == ExitCode::done && rows.rows.empty() ? ExitCode::answered_no : exit;
}

ExitCode run_sweep(const SweepFlags& f) {
  Study study = study_of_words(f.words);
  for (const std::string& each : f.where) study.where.push_back(each);
  if (!f.columns.empty()) study.columns = names_of_list("--columns", f.columns);
  if (!f.objective.empty()) study.objective = f.objective;
  if (!f.pareto.empty()) study.pareto = names_of_list("--pareto", f.pareto);
  check_study(study, "study");
  SweepOptions options;
  options.threads = static_cast<int>(f.threads);
  options.format = format_of(f.output.format);
  const bool whole =
      f.output.format == Format::table || f.output.format == Format::html || f.output.format == Format::svg;
  const bool best = f.top > 0 || !study.pareto.empty();
  std::optional<RankHelpers> others;
  if (f.ranks != nullptr) {
    options.threads = threads_of_rank(*f.ranks, f.threads);
    if (f.ranks->rank() > 0) {
      serve_first_rank(*f.ranks, study, options, best || whole, f.top);
      return ExitCode::done;
    }
    others.emplace(*f.ranks);
    if (best || !whole) options.helpers = others->helpers();  // a table of all points is made of all of them anyway
  }
  return best || whole ? show_best(f, study, options) : stream_points(f, study, options);
}

}  // namespace

void add_sweep_command(const Command& root, Action& action) {
  auto flags = std::make_shared<SweepFlags>();
  const Command app = root.subcommand("sweep", "a grid of predictions: any flag of llm or op with a list of values");
  app.leave_others();
  add_choice(app, "--plot", kSweepPlotWords, flags->plot, "with --format svg: the points, or a heat map of two axes");
  app.repeated("--where", "CONDITION", "keep points that hold it: fits, 'latency_s<=0.05' (repeatable)",
               [flags](const std::string& text) { flags->where.push_back(text); });
  app.text("--columns", "NAMES", "figures, between commas, as JSON calls them [latency, tokens, energy, power, ...]",
           flags->columns);
  app.text("--objective", "'max NAME'", "what points are ranked by", flags->objective);
  add_whole(app, "--top", "the N best points by the objective, best first", flags->top, 1);
  app.text("--pareto", "NAME,NAME", "points that no other beats in all of these", flags->pareto);
  add_whole(app, "--threads", "threads [one a core]", flags->threads, 1);
  app.toggle("--resume", "go on where an earlier run of the same study into --out ended", flags->resume);
  app.toggle("--progress", "say on stderr how far it is, not only on a terminal", flags->progress);
  add_output_flags(app, flags->output,
                   {Format::csv, Format::jsonl, Format::json, Format::table, Format::html, Format::svg});
  app.footer(
      "First comes llm, op NAME, or a study's file; then flags of that command, with lists: 1,2,4 or from:to:step or\n"
      "from:to:xfactor, units once at the end. The last list runs fastest. --set PATH=LIST changes the machine;\n"
      "--label LIST names points and does nothing else.\n"
      "A point that is refused keeps its line, with the reason in 'error'; exit code 3. Best points fit in memory.\n"
      "Exit code 1: no point is left. Examples:\n"
      "  predict-model sweep llm --model llama-3.1-8b --gpu h100,h200 --phase decode --batch 1:64:x2\n"
      "  predict-model sweep llm --model llama-3.1-70b --gpu h200 --phase decode --tp 1,2,4,8 --batch 1:256:x2 \\\n"
      "    --set memory.bandwidth=4:8:1TB/s --where 'latency_s<=0.03' --objective 'max tokens_per_s_per_gpu' --top 5\n"
      "  predict-model sweep op gemm M=1:4096:x2 N=4096 K=4096 --gpu h200 --format table");
  app.when_chosen([flags, app, &action] {
    if (app.given("--plot") && flags->output.format != Format::svg) {
      throw BadInput("--plot: expected it with --format svg");
    }
    flags->words = app.others();
    flags->ranks = app.around().ranks;
    action = [flags] { return run_sweep(*flags); };
  });
}

}  // namespace plumbline::cli
