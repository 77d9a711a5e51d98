// Studies: many questions at once, named as the flags of `predict-model llm` and `op` are.
//
//   Study study;
//   study.base = {{"model", "llama-3.1-70b"}, {"gpu", "h200"}, {"phase", "decode"}, {"context", "4096"}};
//   study.axes = {axis("batch", "1:64:x2"), axis("set.memory.bandwidth", "4:8:1TB/s")};
//   sweep(study, SweepOptions{}, [](std::string_view lines) { std::fwrite(lines.data(), 1, lines.size(), stdout); });
//
// Functions are free of global state, log nothing, and may be called by several threads at once. They throw BadInput for a
// study that can't be meant; a point of a sweep that is refused keeps its line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plumbline {

/// A flag by its long name ("batch", "set.memory.bandwidth"; of op also "op" and the keys of its shape) and its value.
struct StudySetting {
  std::string name, value;
};

/// Several names: they go together, one value of each at a time.
struct StudyAxis {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> values;  ///< each: a value of every name
};

struct Study {
  bool of_op = false;  ///< questions are operators, else models
  std::vector<StudySetting> base;
  std::vector<StudyAxis> axes;       ///< the last one runs fastest
  std::vector<std::string> where;    ///< "fits", "latency_s<=0.05": points that hold all of them
  std::vector<std::string> columns;  ///< empty: the usual ones
  std::string objective;             ///< "max tokens_per_s"; "": none
  std::vector<std::string> pareto;   ///< two columns or more
};

/// "1,2,4", "from:to:step" or "from:to:xfactor" ("1:64:x2"), units once at the end ("3:9:0.5TB/s"). `place` stands before
/// messages. Throws BadInput for a list that can't be meant, or of more than a million values.
std::vector<std::string> expand_list(const std::string& place, const std::string& text);
StudyAxis axis(const std::string& name, const std::string& list);

/// Reads a study's JSON (docs/predict-model.md). `place` is the file it is from, which messages begin with: files that the
/// study names are looked for beside it first. Throws BadInput naming the key.
Study parse_study(const std::string& json_text, const std::string& place);
/// The same for the same study, and for no other: of its settings and lists, and of files that they name.
std::string study_identity(const Study& study);

std::int64_t point_count(const Study& study);

/// A figure of a point; nothing where the model has none.
using StudyFigure = std::variant<std::monostate, bool, double, std::string>;

enum class SweepFormat { csv, json_lines, json };

struct SweepProgress {
  std::int64_t points = 0;   ///< of the study
  std::int64_t done = 0;     ///< those before the first one that is left
  std::int64_t kept = 0;     ///< lines that were written
  std::int64_t refused = 0;  ///< ... of which have an error in place of figures
  std::int64_t bugs = 0;     ///< ... of which failed inside the model
};

/// A range of a study's points as another process answers it.
struct SweepPart {
  SweepProgress counts;            ///< `done` is how many points it is of
  std::string lines;               ///< of sweep(): those of the points that are kept
  std::vector<std::int64_t> best;  ///< of best_points(): those that may be among the best of all
};

/// Has points [first, first + count) answered elsewhere, by parts of SweepServant; nothing: whoever did so is gone.
using SweepHelper = std::function<std::optional<SweepPart>(std::int64_t first, std::int64_t count)>;

struct SweepOptions {
  int threads = 0;  ///< 0: one a core
  SweepFormat format = SweepFormat::csv;
  SweepProgress before{};  ///< where an earlier run came to; its lines are not made again
  std::int64_t block = 0;  ///< points that a thread takes at a time; 0: as suits the study
  /// Called after each part of the output has gone to the sink, in order.
  std::function<void(const SweepProgress&)> progress{};
  /// Of best_points(): called after each part with the points that may be among the best, and what `note` was called with
  /// where the earlier run came to `before`.
  std::function<void(const SweepProgress&, const std::vector<std::int64_t>&)> note{};
  std::vector<std::int64_t> best_before{};
  std::vector<SweepHelper> helpers{};  ///< each is asked by a thread of its own, beside `threads`
};

/// Every point of the study, a line each, in order; memory does not grow with the study. The bytes do not depend on the
/// threads, nor on where it was resumed. What the sink throws is passed on.
SweepProgress sweep(const Study& study, const SweepOptions& options, const std::function<void(std::string_view)>& sink);

struct StudyRow {
  std::int64_t point = 0;
  std::vector<std::string> settings;  ///< of the axes
  std::vector<StudyFigure> figures;   ///< of the columns
  std::string error;
};

/// The same points in the same order as figures: those of a point that is refused are empty, and it has an error.
SweepProgress sweep_rows(const Study& study, const SweepOptions& options,
                         const std::function<void(const StudyRow&)>& sink);

/// Names of the axes, and the columns that a sweep of the study has.
std::vector<std::string> axis_names(const Study& study);
std::vector<std::string> column_names(const Study& study);

struct StudyRows {
  std::vector<std::string> names, columns;
  std::vector<StudyRow> rows;
  SweepProgress counts;
};

/// The `top` best points by the study's objective, best first; where the study has `pareto`, of them those that no other
/// point beats in all its columns; without either all points, of which there may be `most`. Points that do not fit, and
/// refused ones, are never best. Throws BadInput for more points.
StudyRows best_points(const Study& study, std::int64_t top, const SweepOptions& options, std::int64_t most);

/// The other side of a SweepHelper: answers ranges of points of the same study, asked for in the same way (`best`: by
/// best_points() with this `top`). One a thread.
class SweepServant {
 public:
  SweepServant(const Study& study, const SweepOptions& options, bool best, std::int64_t top);
  ~SweepServant();
  SweepServant(const SweepServant&) = delete;
  SweepServant& operator=(const SweepServant&) = delete;

  SweepPart answer(std::int64_t first, std::int64_t count);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Time and energy of all executions of an operator in a step or a whole answer.
struct OperatorCost {
  std::string phase;  ///< "prefill" or "decode" of a whole answer, else ""
  std::string name, limiter;
  double time_s = 0, energy_J = 0;
};

/// A figure and its 5-95 % band.
struct BandedRatio {
  double value = 1, low = 1, high = 1;
};

/// What one number of the descriptor does.
struct ParameterEffect {
  std::string path, unit;
  double value = 0;    ///< as it is, SI
  double changed = 0;  ///< "+10 %": a count moves by one at least
  /// d ln(figure) / d ln(number), between 10 % less and 10 % more (of one side alone where the other is no machine).
  double latency = 0, energy = 0, tokens_per_s = 0, tokens_per_J = 0;
  BandedRatio latency_ratio;        ///< at `changed` over as it is; errors that both have cancel
  double energy_ratio = 1;          ///< likewise
  std::string bound, limiter;       ///< at `changed`: what most of the time goes to, and the longest operator's limiter
  std::vector<OperatorCost> saved;  ///< at `changed`: what each operator is shorter by, and saves; none: nothing
  std::string why_not;              ///< it has no effect, or can't be changed: why
};

/// Two or three numbers changed together, against each alone.
struct ParameterInteraction {
  std::vector<std::string> paths;
  double together = 1, product = 1;  ///< latency ratios: of all changed, and of each multiplied
};

struct Sensitivity {
  double latency_s = 0, energy_J = 0, tokens_per_s = 0, tokens_per_J = 0;
  std::string bound;
  std::vector<ParameterEffect> parameters;  ///< the largest effect on latency first
  std::vector<ParameterInteraction> interactions;
};

/// Of the study's base, which may have no axes. Throws what predicting it throws.
Sensitivity sensitivity(const Study& study);

/// What is sought: the least or the largest value of a number.
struct SolveQuestion {
  std::string name;                  ///< a whole-number flag ("batch", "gpus"), or "set.PATH"
  std::vector<std::string> targets;  ///< "latency_s<=0.010"
  bool largest = false;
  double from = 0, to = 0;  ///< SI; 0: a sixteenth and sixteen times as it is; whole numbers 1 to 65536
};

/// A value that was tried.
struct SolveTrial {
  double value = 0;             ///< SI
  std::vector<double> figures;  ///< of each target; 0 of what is no number
  bool fits = true, met = false;
};

struct Solution {
  bool found = false;
  double value = 0;    ///< SI; where nothing was found the value that comes nearest
  double present = 0;  ///< as it is
  std::string unit;
  std::vector<std::pair<std::string, double>> reached;  ///< of each target the figure there
  std::vector<std::optional<double>> limits;  ///< ... and the number that it is held against, where it has one
  std::vector<SolveTrial> tried;              ///< values that could be predicted, the least first
  std::string unmet;                          ///< the target that nothing meets, or that is farthest off
  std::string bound, limiter, longest;        ///< what remains: of the step, of its longest operator, and which that is
  bool fits = true;
};

/// By a grid of values and halving: where the targets hold here and there, the first that the grid finds. Throws BadInput
/// for a name that is no number, for targets that are no comparisons, and where all values are refused.
Solution solve(const Study& study, const SolveQuestion& question);

/// One side of a difference, and where the other overtakes it.
struct DifferenceSide {
  double latency_s = 0, latency_low_s = 0, latency_high_s = 0, energy_J = 0, tokens_per_s = 0, power_W = 0;
  std::string bound;
  bool fits = true;
};

struct OperatorDifference {
  OperatorCost before, after;  ///< of a name that one side alone has, nothing on the other
};

struct CrossOver {
  std::string name;          ///< "batch", "context", "prompt"
  std::int64_t at = 0;       ///< from this value on the faster side is another one
  bool second_from = false;  ///< ... the second
};

struct StudyDifference {
  DifferenceSide before, after;
  BandedRatio latency_ratio;
  bool same_machine = false;  ///< numbers of a descriptor alone differ: errors that both sides have cancel
  std::vector<OperatorDifference> operators;  ///< the largest change first
  std::vector<CrossOver> cross_overs;
};

/// Of two questions without axes. Throws what predicting them throws, BadInput where one is of a model and one of an operator.
StudyDifference difference(const Study& before, const Study& after);

}  // namespace plumbline
