#include "model/study/points.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/number.hpp"
#include "model/question/words.hpp"
#include "model/study/pricing.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostPoints = 1'000'000'000'000;
constexpr std::string_view kSet = "set.";

void check_axis(const StudyAxis& axis, const std::string& place, std::set<std::string>& seen) {
  std::string all;
  for (const std::string& name : axis.names) {
    if (name == "op") throw BadInput(place + ": op: expected one operator in a study, whose keys may be axes");
    if (!seen.insert(name).second) throw BadInput(place + ": " + name + ": is an axis already");
    all += (all.empty() ? "" : ", ") + name;
  }
  if (axis.names.empty() || axis.values.empty()) throw BadInput(place + ": " + all + ": expected values, found none");
  std::set<std::vector<std::string>> values;
  for (const std::vector<std::string>& each : axis.values) {
    if (each.size() != axis.names.size()) throw BadInput(place + ": " + all + ": expected a value of each name");
    if (!values.insert(each).second)
      throw BadInput(place + ": " + all + ": has the value '" + each.front() + "' twice");
  }
}

/// Words and numbers that no point can take.
void try_settings(const Study& study) {
  Inquiry question = base_question(study);
  for (const StudyAxis& axis : study.axes) {
    for (const std::vector<std::string>& values : axis.values) {
      for (std::size_t i = 0; i < axis.names.size(); ++i) {
        set_question(question, axis.names[i], values[i], place_of_setting(axis.names[i]));
      }
    }
  }
  require_all(question);
}

/// All values that a name takes.
std::vector<std::string> values_of(const Study& study, const std::string& name) {
  std::vector<std::string> found;
  for (const StudySetting& each : study.base) {
    if (each.name == name) found.push_back(each.value);
  }
  for (const StudyAxis& axis : study.axes) {
    for (std::size_t i = 0; i < axis.names.size(); ++i) {
      if (axis.names[i] != name) continue;
      found.clear();  // in place of the base's
      for (const std::vector<std::string>& values : axis.values) found.push_back(values[i]);
    }
  }
  return found;
}

/// Names that nothing is known by, and numbers that the first GPU can't have.
void try_names(const Study& study) {
  if (!study.of_op) {
    for (const std::string& model : values_of(study, "model")) load_llm(model);
  }
  for (const std::string& stack : values_of(study, "stack")) machines().stack(stack);
  const std::vector<std::string> gpus = values_of(study, "gpu");
  for (const std::string& gpu : gpus) {
    const Gpu& card = machines().gpu(gpu);
    for (const std::string& cluster : values_of(study, "cluster")) machines().cluster(card, cluster);
  }
  const std::vector<GpuParameter> known = gpu_parameters();
  const auto try_path = [&](const std::string& name) {
    if (!name.starts_with(kSet)) return;
    const std::string path = name.substr(kSet.size());
    std::vector<std::string> paths;
    for (const GpuParameter& each : known) paths.push_back(each.path);
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) {
      throw BadInput(place_of_setting(name) + ": unknown descriptor parameter" + did_you_mean(path, paths) +
                     "; see 'predict-model list parameters'");
    }
    const std::vector<std::string> values = values_of(study, name);
    if (!values.empty()) GpuChanges(gpus.front()).alone({path, values.front()});
  };
  for (const StudySetting& each : study.base) try_path(each.name);
  for (const StudyAxis& axis : study.axes) {
    for (const std::string& name : axis.names) try_path(name);
  }
}

}  // namespace

std::string place_of_setting(const std::string& name) {
  if (name.starts_with(kSet)) return "--set " + name.substr(kSet.size());
  for (const QuestionKey& key : question_keys()) {
    if (key.name == name) return "--" + name;
  }
  return name;
}

Inquiry base_question(const Study& study) {
  Inquiry question;
  question.of_op = study.of_op;
  // contract: single operators as in short bursts, models as they settle
  question.machine.options.clock = study.of_op ? ClockMode::burst : ClockMode::steady;
  for (const StudySetting& each : study.base) {  // first, as it says which keys there are
    if (each.name == "op") set_question(question, each.name, each.value, "op");
  }
  for (const StudySetting& each : study.base) {
    if (each.name != "op") set_question(question, each.name, each.value, place_of_setting(each.name));
  }
  return question;
}

void require_all(const Inquiry& q) {
  if (q.of_op) {
    if (q.op.op.empty()) throw BadInput("op: expected an operator such as gemm, found none");
  } else {
    if (q.llm.model.empty()) throw BadInput("--model is required");
    if (!q.llm.phase_given) throw BadInput("--phase is required");
  }
  if (q.machine.gpu.empty()) throw BadInput("--gpu is required");
}

void check_study(const Study& study, const std::string& place) {
  std::set<std::string> seen;
  double points = 1;
  for (const StudyAxis& axis : study.axes) {
    check_axis(axis, place, seen);
    points *= static_cast<double>(axis.values.size());
  }
  if (points > static_cast<double>(kMostPoints)) throw BadInput(place + ": expected at most 1e12 points");
  if (!study.pareto.empty() && study.pareto.size() < 2) {
    throw BadInput(place + ": pareto: expected two columns or more, found '" + study.pareto.front() + "'");
  }
  try_settings(study);
  try_names(study);
  const StudyPlan plan(study);  // columns, conditions and objectives
}

namespace {

constexpr char kUnit = '\x1f';  // between words, where none of theirs stands

void add_word(const std::string& word, std::string& text) {
  text += word;
  text += kUnit;
  text += named_file_text(word);
  text += kUnit;
}

}  // namespace

std::string study_identity(const Study& study) {
  std::string text = study.of_op ? "op" : "llm";
  for (const StudySetting& each : study.base) {
    add_word(each.name, text);
    add_word(each.value, text);
  }
  for (const StudyAxis& axis : study.axes) {
    text += "\naxis";
    for (const std::string& name : axis.names) add_word(name, text);
    for (const std::vector<std::string>& values : axis.values) {
      for (const std::string& value : values) add_word(value, text);
    }
  }
  for (const auto* list : {&study.where, &study.columns, &study.pareto}) {
    text += "\nlist";
    for (const std::string& each : *list) add_word(each, text);
  }
  add_word(study.objective, text);
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, 64 bits
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

std::int64_t point_count(const Study& study) {
  std::int64_t count = 1;
  for (const StudyAxis& axis : study.axes) count *= static_cast<std::int64_t>(axis.values.size());
  return count;
}

std::vector<std::string> axis_names(const Study& study) {
  std::vector<std::string> names;
  for (const StudyAxis& axis : study.axes) names.insert(names.end(), axis.names.begin(), axis.names.end());
  return names;
}

std::vector<std::string> column_names(const Study& study) {
  return study.columns.empty() ? usual_columns(study.of_op) : study.columns;
}

StudyPoints::StudyPoints(const Study& study)
    : study_(study), base_(base_question(study)), names_(axis_names(study)), count_(point_count(study)) {
  for (const StudyAxis& axis : study.axes) {
    for (const std::string& name : axis.names) where_.push_back(place_of_setting(name));
    of_machine_.push_back(std::any_of(axis.names.begin(), axis.names.end(),
                                      [&](const std::string& name) { return is_of_machine(study.of_op, name); }));
  }
}

void StudyPoints::places(std::int64_t point, std::vector<std::uint32_t>& out) const {
  out.resize(study_.axes.size());
  for (std::size_t i = study_.axes.size(); i-- > 0;) {
    const auto size = static_cast<std::int64_t>(study_.axes[i].values.size());
    out[i] = static_cast<std::uint32_t>(point % size);
    point /= size;
  }
}

void StudyPoints::ask(const std::vector<std::uint32_t>& places, Inquiry& out) const {
  out = base_;
  std::size_t number = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const StudyAxis& axis = study_.axes[i];
    const std::vector<std::string>& values = axis.values[places[i]];
    for (std::size_t j = 0; j < axis.names.size(); ++j, ++number) {
      set_question(out, axis.names[j], values[j], where_[number]);
    }
  }
}

void StudyPoints::values(const std::vector<std::uint32_t>& places, std::vector<const std::string*>& out) const {
  out.clear();
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const std::string& value : study_.axes[i].values[places[i]]) out.push_back(&value);
  }
}

std::int64_t StudyPoints::machine_order(const std::vector<std::uint32_t>& places) const {
  std::int64_t order = 0;
  for (const bool machine : {true, false}) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (of_machine_[i] != machine) continue;
      order = order * static_cast<std::int64_t>(study_.axes[i].values.size()) + places[i];
    }
  }
  return order;
}

}  // namespace plumbline
