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
#include <string>
#include <string_view>
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

/// Reads a study's JSON (docs/studies.md). Throws BadInput naming the key.
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

struct SweepOptions {
  int threads = 0;  ///< 0: one a core
  SweepFormat format = SweepFormat::csv;
  SweepProgress before{};  ///< where an earlier run came to; its lines are not made again
  std::int64_t block = 0;  ///< points that a thread takes at a time; 0: as suits the study
  /// Called after each part of the output has gone to the sink, in order.
  std::function<void(const SweepProgress&)> progress{};
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

struct StudyRows {
  std::vector<std::string> names, columns;
  std::vector<StudyRow> rows;
  SweepProgress counts;
};

/// The `top` best points by the study's objective, best first; where the study has `pareto`, of them those that no other
/// point beats in all its columns; without either all points, of which there may be `most`. Points that do not fit, and
/// refused ones, are never best. Throws BadInput for more points.
StudyRows best_points(const Study& study, std::int64_t top, const SweepOptions& options, std::int64_t most);

}  // namespace plumbline
