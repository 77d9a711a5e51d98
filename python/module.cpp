// The native half of Python's `plumbline`: the commands behind their words, studies as columns, a descriptor's numbers. What
// users see is in python/plumbline. Predictions run without the interpreter's lock.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/gpu/number.hpp"
#include "model/cli/front.hpp"
#include "model/cli/study_words.hpp"
#include "model/question/question.hpp"
#include "model/study.hpp"

namespace plumbline {
namespace {

namespace py = pybind11;
using Words = std::vector<std::string>;

/// Runs `work` without the interpreter's lock; what it throws has the line that the command would have printed.
template <class Work>
auto unlocked(const std::string& where, Work work) {
  const py::gil_scoped_release release;
  try {
    return work();
  } catch (const BadInput& error) {
    throw BadInput(where + ": " + error.what());
  } catch (const NotModelled& error) {
    throw NotModelled(where + ": " + error.what());
  }
}

/// Exit code and what the command prints on stdout.
std::pair<int, std::string> answer(const Words& words) {
  const py::gil_scoped_release release;
  std::string text, where;
  try {
    const ExitCode exit = cli::answer(words, &text, where);
    return {static_cast<int>(exit), std::move(text)};
  } catch (const BadInput& error) {
    throw BadInput(where + ": " + error.what());
  } catch (const NotModelled& error) {
    throw NotModelled(where + ": " + error.what());
  }
}

template <class T>
py::bytes bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// One column of figures: numbers, or places in a list of words; NaN where there is none.
class FigureList {
 public:
  void add(const StudyFigure& figure) {
    double number = std::numeric_limits<double>::quiet_NaN();
    if (const auto* plain = std::get_if<double>(&figure)) number = *plain;
    if (const auto* yes = std::get_if<bool>(&figure)) number = *yes ? 1 : 0, kind_ = "bool";
    if (const auto* word = std::get_if<std::string>(&figure)) number = place_of(*word), kind_ = "word";
    numbers_.push_back(number);
  }
  /// Kind; bytes of float64, or of int32: places in the words, 0 and 1, and -1 where there is nothing; the words.
  py::tuple for_python() const {
    if (kind_ == std::string_view("number")) return py::make_tuple(kind_, bytes_of(numbers_), words_);
    std::vector<std::int32_t> places;
    places.reserve(numbers_.size());
    for (const double n : numbers_) places.push_back(std::isnan(n) ? -1 : static_cast<std::int32_t>(n));
    return py::make_tuple(kind_, bytes_of(places), words_);
  }

 private:
  double place_of(const std::string& word) {
    const auto [known, fresh] = places_.try_emplace(word, words_.size());
    if (fresh) words_.push_back(word);
    return static_cast<double>(known->second);
  }

  const char* kind_ = "number";
  std::vector<double> numbers_;
  Words words_;
  std::map<std::string, std::size_t> places_;
};

struct SweptColumns {
  std::vector<std::int64_t> points;
  std::vector<FigureList> figures;
  std::map<std::size_t, std::string> errors;  ///< by row
  SweepProgress counts;

  void add(const StudyRow& row) {
    if (!row.error.empty()) errors.emplace(points.size(), row.error);
    points.push_back(row.point);
    for (std::size_t i = 0; i < figures.size(); ++i) figures[i].add(row.figures[i]);
  }
};

struct SweepCall {
  Words words, where, columns, pareto;
  std::string objective;
  std::int64_t top = 0;
  int threads = 0;
};

Study study_of(const SweepCall& call) {
  Study study = cli::study_of_words(call.words);
  study.where.insert(study.where.end(), call.where.begin(), call.where.end());
  if (!call.columns.empty()) study.columns = call.columns;
  if (!call.objective.empty()) study.objective = call.objective;
  if (!call.pareto.empty()) study.pareto = call.pareto;
  return study;
}

/// As many best points, or points of a front, as a sweep keeps for Python.
constexpr std::int64_t kMostBest = 10'000'000;

SweptColumns swept(const Study& study, const SweepCall& call, const SweepOptions& options) {
  SweptColumns out;
  out.figures.resize(column_names(study).size());
  if (call.top == 0 && study.pareto.empty()) {
    out.counts = sweep_rows(study, options, [&out](const StudyRow& row) { out.add(row); });
    return out;
  }
  const StudyRows best = best_points(study, call.top, options, kMostBest);
  for (const StudyRow& row : best.rows) out.add(row);
  out.counts = best.counts;
  return out;
}

/// Where the rows stand on each axis: int32, as the last one runs fastest.
py::list places_of(const Study& study, const std::vector<std::int64_t>& points) {
  std::vector<std::vector<std::int32_t>> places(study.axes.size());
  for (std::int64_t point : points) {
    for (std::size_t i = study.axes.size(); i-- > 0;) {
      const auto size = static_cast<std::int64_t>(study.axes[i].values.size());
      places[i].push_back(static_cast<std::int32_t>(point % size));
      point /= size;
    }
  }
  py::list out;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    out.append(py::make_tuple(study.axes[i].names, study.axes[i].values, bytes_of(places[i])));
  }
  return out;
}

/// Interrupts from the keyboard end a sweep; `progress(points done, points)` is called between its parts.
std::function<void(const SweepProgress&)> told(const py::object& progress) {
  return [&progress](const SweepProgress& p) {
    const py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!progress.is_none()) progress(p.done, p.points);
  };
}

py::dict sweep_columns(const SweepCall& call, const py::object& progress) {
  Study study;
  SweepOptions options;
  options.threads = call.threads;
  options.progress = told(progress);
  const SweptColumns found = unlocked("predict-model sweep", [&] {
    study = study_of(call);
    return swept(study, call, options);
  });
  py::dict out;
  py::list figures;
  const Words names = column_names(study);
  for (std::size_t i = 0; i < names.size(); ++i)
    figures.append(py::make_tuple(names[i], found.figures[i].for_python()));
  out["axes"] = places_of(study, found.points);
  out["figures"] = figures;
  out["rows"] = found.points.size();
  out["errors"] = found.errors;
  out["points"] = found.counts.points;
  out["kept"] = found.counts.kept;
  out["refused"] = found.counts.refused;
  out["bugs"] = found.counts.bugs;
  return out;
}

/// Of every number that `--set` takes: path, the units that it is written in, and what it is under these overrides, in SI
/// units; None of numbers that a descriptor alone has.
py::list gpu_numbers(const std::string& name, const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<Override> overrides;
  for (const auto& [path, value] : changes) overrides.push_back({path, value});
  const Gpu gpu = unlocked("predict-model gpu", [&] { return load_gpu(name, overrides); });
  py::list out;
  for (const GpuParameter& each : gpu_parameters()) {
    py::object value = py::none();
    if (const auto place = number_place(each.path)) {
      const double number = number_at(gpu, *place);
      if (place->whole) value = py::int_(static_cast<std::int64_t>(number));
      else value = py::float_(number);
    }
    out.append(py::make_tuple(each.path, each.unit, value));
  }
  return out;
}

/// Names of the flags of op, or of llm.
Words flags(bool of_op) {
  Words names{"set"};
  for (const QuestionKey& key : question_keys()) {
    if (of_op ? key.of_op : key.of_llm) names.emplace_back(key.name);
  }
  return names;
}

/// Error, and below it BadInput (which is a ValueError too) and NotModelled.
void add_errors(py::module_& module) {
  static const py::exception<Error> any(module, "Error");
  static const py::exception<BadInput> bad(module, "BadInput", py::make_tuple(any, py::handle(PyExc_ValueError)));
  static const py::exception<NotModelled> beyond(module, "NotModelled", any);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const BadInput& error) {
      PyErr_SetString(bad.ptr(), error.what());
    } catch (const NotModelled& error) {
      PyErr_SetString(beyond.ptr(), error.what());
    } catch (const Error& error) {
      PyErr_SetString(any.ptr(), error.what());
    }
  });
}

}  // namespace
}  // namespace plumbline

PYBIND11_MODULE(_core, module) {
  using namespace plumbline;
  module.doc() = "The native half of plumbline; see plumbline itself.";
  module.attr("version") = PLUMBLINE_VERSION;
  add_errors(module);
  module.def("answer", &answer, py::arg("words"));
  module.def(
      "sweep",
      [](Words words, Words where, Words columns, std::string objective, Words pareto, std::int64_t top, int threads,
         const py::object& progress) {
        return sweep_columns({std::move(words), std::move(where), std::move(columns), std::move(pareto),
                              std::move(objective), top, threads},
                             progress);
      },
      py::arg("words"), py::arg("where"), py::arg("columns"), py::arg("objective"), py::arg("pareto"), py::arg("top"),
      py::arg("threads"), py::arg("progress"));
  module.def("flags", &flags, py::arg("of_op"));
  module.def(
      "nearest", [](const std::string& text, const Words& names) { return nearest_name(text, names); }, py::arg("text"),
      py::arg("names"));
  module.def("gpu_numbers", &gpu_numbers, py::arg("name"), py::arg("changes"));
  module.def("data_folder", [] { return data_folder(); });
  module.def(
      "set_data_folder", [](const std::string& path) { set_data_folder(path); }, py::arg("path"));
  module.def(
      "know_installed_data",
      [](const std::string& folder) {
        static const std::string known = folder;  // as long as the process, the first one
        know_installed_data(known.c_str());
      },
      py::arg("folder"));
}
