// Studies as JSON.
#include <cmath>
#include <filesystem>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/json_reader.hpp"
#include "model/study.hpp"
#include "model/study/points.hpp"

namespace plumbline {
namespace {

std::string text_of_value(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::string: return value.as_string();
    case JsonValue::Kind::boolean: return value.as_bool() ? "1" : "0";
    case JsonValue::Kind::number: return format_exact(value.as_number());
    default: value.fail("expected a number, a word, true or false, found " + value.dump().substr(0, 60));
  }
}

std::vector<std::string> words_of_list(const JsonValue& root, std::string_view key) {
  std::vector<std::string> words;
  if (const auto list = root.find_list(key)) {
    for (const JsonValue& each : list->elements()) words.push_back(each.as_string());
  }
  return words;
}

void read_base(const JsonValue& base, Study& study) {
  if (!base.is_object()) base.fail("expected an object, found " + base.dump().substr(0, 60));
  const std::string command = base.find_string("command").value_or("llm");
  if (command != "llm" && command != "op") {
    base.at("command").fail("expected llm or op, found '" + command + "'" + did_you_mean(command, {"llm", "op"}));
  }
  study.of_op = command == "op";
  for (const std::string& key : base.keys()) {
    const auto value = base.find(key);
    if (key == "command" || !value) continue;
    if (key == "set" && value->is_object()) {
      for (const std::string& path : value->keys()) {
        study.base.push_back({"set." + path, text_of_value(value->at(path))});
      }
    } else {
      study.base.push_back({key, text_of_value(*value)});
    }
  }
}

/// "from", "to" and one of "count", "step", "factor".
std::vector<std::string> range_values(const JsonValue& v, const std::string& name) {
  const std::string place = v.place() + ": " + name;
  const std::string from = text_of_value(v.at("from")), to = text_of_value(v.at("to"));
  if (const auto step = v.find("step")) return expand_list(place, from + ":" + to + ":" + text_of_value(*step));
  if (const auto factor = v.find("factor")) return expand_list(place, from + ":" + to + ":x" + text_of_value(*factor));
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t count = v.at("count").as_integer();
  if (count < 1 || count > kMost) v.at("count").fail("expected from 1 to a million, found " + std::to_string(count));
  return evenly_spaced(place, from, to, count);
}

/// One name and its values.
StudyAxis read_axis(const JsonValue& v) {
  v.refuse_unknown_keys({"name", "values", "list", "from", "to", "count", "step", "factor"});
  StudyAxis axis;
  const std::string name = v.at("name").as_string();
  axis.names = {name};
  std::vector<std::string> values;
  if (const auto list = v.find_list("values")) {
    for (const JsonValue& each : list->elements()) values.push_back(text_of_value(each));
  } else if (const auto list_text = v.find_string("list")) {
    values = expand_list(v.place() + ": " + name, *list_text);
  } else if (v.has("from")) {
    values = range_values(v, name);
  } else {
    v.fail("expected values, list or from and to, found none of them");
  }
  for (std::string& value : values) axis.values.push_back({std::move(value)});
  return axis;
}

StudyAxis read_zip(const JsonValue& list) {
  StudyAxis out;
  for (const JsonValue& each : list.elements()) {
    const StudyAxis one = read_axis(each);
    if (!out.names.empty() && one.values.size() != out.values.size()) {
      list.fail("expected lists of one length, found " + std::to_string(out.values.size()) + " and " +
                std::to_string(one.values.size()) + " values");
    }
    out.names.push_back(one.names.front());
    out.values.resize(one.values.size());
    for (std::size_t i = 0; i < one.values.size(); ++i) out.values[i].push_back(one.values[i].front());
  }
  return out;
}

/// A file that a study names lies beside the study, or else where the program was started.
void look_beside(const std::filesystem::path& folder, const std::string& name, std::string& value) {
  if (name == "label" || !looks_like_path(value) || std::filesystem::path(value).is_absolute()) return;
  const std::filesystem::path beside = (folder / value).lexically_normal();
  std::error_code unreadable;
  if (std::filesystem::is_regular_file(beside, unreadable)) value = beside.string();
}

void look_beside(const std::filesystem::path& folder, Study& study) {
  for (StudySetting& each : study.base) look_beside(folder, each.name, each.value);
  for (StudyAxis& axis : study.axes) {
    for (std::vector<std::string>& values : axis.values) {
      for (std::size_t i = 0; i < values.size(); ++i) look_beside(folder, axis.names[i], values[i]);
    }
  }
}

}  // namespace

Study parse_study(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  if (!root.is_object()) root.fail("expected a study, found " + root.dump().substr(0, 60));
  root.refuse_unknown_keys({"schema", "note", "answer", "base", "axes", "where", "columns", "objective", "pareto"});
  if (const std::int64_t schema = root.at("schema").as_integer(); schema != 1) {
    root.at("schema").fail("expected 1, found " + std::to_string(schema));
  }
  Study study;
  read_base(root.at("base"), study);
  if (const auto axes = root.find_list("axes")) {
    for (const JsonValue& each : axes->elements()) {
      if (const auto zip = each.find_list("zip")) {
        each.refuse_unknown_keys({"zip"});
        study.axes.push_back(read_zip(*zip));
      } else {
        study.axes.push_back(read_axis(each));
      }
    }
  }
  study.where = words_of_list(root, "where");
  study.columns = words_of_list(root, "columns");
  study.objective = root.find_string("objective").value_or("");
  study.pareto = words_of_list(root, "pareto");
  look_beside(std::filesystem::path(place).parent_path(), study);
  check_study(study, place);
  return study;
}

}  // namespace plumbline
