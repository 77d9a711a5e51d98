#include "model/stacks/read_rewrites.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

/// What a launch gives its kernel.
constexpr std::array<std::string_view, 3> kGiven{"n", "read", "write"};

struct KernelText {
  std::string op, shape, dtype, let;
};
using Kernels = std::map<std::string, KernelText, std::less<>>;

const Operator& operator_in(const JsonValue& value) {
  const std::string name = value.as_string();
  const Operator* found = find_operator(name);
  if (found == nullptr) value.fail("expected an operator, found '" + name + "'" + did_you_mean(name, op_names()));
  return *found;
}

/// Reads a kernel's `name=expression` pairs joined by ';' and adds their names to `names`.
void read_lets(const JsonValue& place, const std::string& lets, std::vector<std::string>& names,
               const std::array<std::string, kGiven.size()>& given, LaunchRule& launch) {
  for (std::size_t begin = 0; begin < lets.size();) {
    const std::size_t end = std::min(lets.find(';', begin), lets.size());
    const std::string pair = lets.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equal = pair.find('=');
    if (equal == std::string::npos) place.fail("let: expected name=expression, found '" + pair + "'");
    const std::string name = pair.substr(0, equal);
    if (std::find(names.begin(), names.end(), name) != names.end()) place.fail("let: '" + name + "' is a name already");
    try {
      launch.lets.emplace_back(with_names_replaced(pair.substr(equal + 1), kGiven, given), names);
    } catch (const BadInput& error) {
      place.fail("let '" + name + "': " + error.what());
    }
    names.push_back(name);
  }
}

/// Reads `key=expression` pairs joined by ';'; `given` fills in what a kernel leaves open.
void read_shape(const JsonValue& place, const std::string& shape, std::span<const std::string> names,
                const std::array<std::string, kGiven.size()>* given, LaunchRule& launch) {
  for (std::size_t begin = 0; begin < shape.size();) {
    const std::size_t end = std::min(shape.find(';', begin), shape.size());
    const std::string pair = shape.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equal = pair.find('=');
    if (equal == std::string::npos) place.fail("expected key=expression, found '" + pair + "'");
    const std::string key = pair.substr(0, equal);
    const auto found = std::find_if(launch.op->keys.begin(), launch.op->keys.end(),
                                    [&key](const Key& each) { return each.name == key; });
    if (found == launch.op->keys.end()) {
      std::vector<std::string> known;
      for (const Key& each : launch.op->keys) known.emplace_back(each.name);
      place.fail("'" + std::string(launch.op->name) + "' has no key '" + key + "'" + did_you_mean(key, known));
    }
    const std::string text = pair.substr(equal + 1);
    if (const auto type = parse_dtype(text); found->type == KeyType::dtype && type) {
      launch.keys.push_back({&*found, Expression(static_cast<double>(*type))});
      continue;
    }
    try {
      launch.keys.push_back(
          {&*found, Expression(given != nullptr ? with_names_replaced(text, kGiven, *given) : text, names)});
    } catch (const BadInput& error) {
      place.fail("key '" + key + "': " + error.what());
    }
  }
  for (const Key& key : launch.op->keys) {
    const bool set = std::any_of(launch.keys.begin(), launch.keys.end(),
                                 [&key](const LaunchRule::KeyRule& each) { return each.key->name == key.name; });
    if (key.required && !set) place.fail("expected key '" + std::string(key.name) + "'");
  }
}

void read_type(const JsonValue& value, const std::string& dtype, LaunchRule& launch) {
  if (dtype.empty()) return;
  const auto type = parse_dtype(dtype);
  if (!type) value.fail("expected a data type, found '" + dtype + "'");
  launch.type = *type;
}

LaunchRule read_launch(const JsonValue& value, const Kernels& kernels, std::span<const std::string> names) {
  value.refuse_unknown_keys(
      {"name", "kernel", "n", "read", "write", "op", "shape", "dtype", "same", "times", "in_call", "calls", "waits"});
  LaunchRule launch;
  launch.name = value.at("name").as_string();
  launch.in_call = value.find_bool("in_call").value_or(false);
  launch.waits = value.find_bool("waits").value_or(false);
  if (value.has("calls")) {
    launch.calls = value.at("calls").as_number();
    if (!(launch.calls > 0 && launch.calls <= 100)) value.at("calls").fail("expected above 0, at most 100");
  }
  if (const auto times = value.find_string("times")) {
    try {
      launch.times = Expression(*times, names);
    } catch (const BadInput& error) {
      value.at("times").fail(error.what());
    }
  }
  if (value.find_bool("same").value_or(false)) return launch;
  const std::string dtype = value.find_string("dtype").value_or("");
  if (!value.has("kernel")) {
    launch.op = &operator_in(value.at("op"));
    read_type(value, dtype, launch);
    read_shape(value.at("shape"), value.at("shape").as_string(), names, nullptr, launch);
    return launch;
  }
  const std::string name = value.at("kernel").as_string();
  const auto kernel = kernels.find(name);
  if (kernel == kernels.end()) {
    std::vector<std::string> known;
    for (const auto& each : kernels) known.push_back(each.first);
    value.at("kernel").fail("expected one of the file's kernels, found '" + name + "'" + did_you_mean(name, known));
  }
  launch.op = find_operator(kernel->second.op);
  read_type(value, dtype.empty() ? kernel->second.dtype : dtype, launch);
  std::array<std::string, kGiven.size()> given;
  for (std::size_t i = 0; i < kGiven.size(); ++i) given.at(i) = value.at(kGiven.at(i)).as_string();
  std::vector<std::string> with_lets(names.begin(), names.end());
  read_lets(value, kernel->second.let, with_lets, given, launch);
  read_shape(value, kernel->second.shape, with_lets, &given, launch);
  return launch;
}

std::vector<std::string> words_in(const JsonValue& value, std::string_view key) {
  std::vector<std::string> words;
  const auto list = value.find_list(key);
  if (!list) return words;
  for (const JsonValue& each : list->elements()) words.push_back(each.as_string());
  if (words.empty()) list->fail("expected one name at least");
  return words;
}

void read_kernels(const JsonValue& root, Kernels& kernels) {
  const auto list = root.find_list("kernels");
  if (!list) return;
  for (const JsonValue& value : list->elements()) {
    value.refuse_unknown_keys({"name", "op", "let", "shape", "dtype", "source"});
    (void)value.at("source").as_string();
    const std::string name = value.at("name").as_string();
    KernelText text{std::string(operator_in(value.at("op")).name), value.at("shape").as_string(),
                    value.find_string("dtype").value_or(""), value.find_string("let").value_or("")};
    if (!kernels.emplace(name, std::move(text)).second) value.fail("expected each kernel once, found '" + name + "'");
  }
}

NodeRule read_rule(const JsonValue& value, const Kernels& kernels) {
  value.refuse_unknown_keys(
      {"op", "nodes", "model_types", "activations", "phase", "pass", "autocast", "lists", "launches", "note"});
  NodeRule rule;
  rule.op = operator_in(value.at("op")).name;
  rule.nodes = words_in(value, "nodes");
  rule.model_types = words_in(value, "model_types");
  rule.activations = words_in(value, "activations");
  const std::string phase = value.find_string("phase").value_or("");
  if (!phase.empty() && phase != "prefill" && phase != "decode") {
    value.at("phase").fail("expected prefill or decode, found '" + phase + "'");
  }
  rule.in_prefill = phase != "decode";
  rule.in_decode = phase != "prefill";
  if (value.has("autocast")) rule.autocast = value.at("autocast").as_bool();
  const std::string pass = value.find_string("pass").value_or("forward");
  if (pass == "backward") rule.pass = Pass::backward;
  else if (pass == "update") rule.pass = Pass::update;
  else if (pass != "forward") value.at("pass").fail("expected forward, backward or update, found '" + pass + "'");
  if (value.has("lists")) {
    if (rule.pass != Pass::update) value.at("lists").fail("expected pass update beside it");
    rule.lists = static_cast<int>(value.at("lists").as_integer());
    if (rule.lists < 1 || rule.lists > 100) value.at("lists").fail("expected 1 to 100");
  }
  const std::vector<std::string> names = expression_names(rule.op);
  for (const JsonValue& launch : value.at("launches").elements()) {
    rule.launches.push_back(read_launch(launch, kernels, names));
  }
  return rule;
}

constexpr const char* kPart = "launches";  // of the data folder
constexpr int kDeepest = 4;                // files behind one another

/// The rules of a file, then those of the file that it stands before, whose kernels it may name; and how many files that is.
struct LaunchFile {
  Kernels kernels;
  Rewrites rewrites;
  int files = 1;
};

std::shared_ptr<const LaunchFile> read_named(const JsonValue& value, int depth);

LaunchFile read_launch_file(const JsonValue& root, int depth) {
  root.refuse_unknown_keys({"schema", "title", "note", "held", "ties", "stops_early", "before", "kernels", "launches"});
  if (root.at("schema").as_integer() != 1) root.at("schema").fail("expected 1");
  LaunchFile file;
  std::shared_ptr<const LaunchFile> next;
  if (root.has("before")) {
    if (depth == kDeepest) root.at("before").fail("expected at most 4 files behind one another");
    next = read_named(root.at("before"), depth + 1);
    file.files += next->files;
  }
  read_kernels(root, file.kernels);
  // its own go before those of the same name
  if (next) file.kernels.insert(next->kernels.begin(), next->kernels.end());
  for (const JsonValue& value : root.at("launches").elements()) {
    file.rewrites.rules.push_back(read_rule(value, file.kernels));
  }
  if (next) {
    std::vector<NodeRule>& rules = file.rewrites.rules;
    rules.insert(rules.end(), next->rewrites.rules.begin(), next->rewrites.rules.end());
  }
  file.rewrites.held = words_in(root, "held");
  file.rewrites.ties = words_in(root, "ties");
  if (root.has("stops_early")) file.rewrites.stops_early = root.at("stops_early").as_bool();
  return file;
}

/// Files of launches that were read, by path: the longest one stands behind five of the stacks, all of which a prediction may
/// compare (advice).
class ReadFiles {
 public:
  /// Null where it was not read.
  std::shared_ptr<const LaunchFile> find(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    const auto known = files_.find(path);
    return known == files_.end() ? nullptr : known->second;
  }
  void keep(const std::string& path, std::shared_ptr<const LaunchFile> file) {
    const std::scoped_lock lock(mutex_);
    files_.emplace(path, std::move(file));
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const LaunchFile>> files_;
};

ReadFiles& read_files() {
  static ReadFiles files;
  return files;
}

/// As the file at that depth, from 1. One that was read is read again where too many stand behind it, for the message.
std::shared_ptr<const LaunchFile> read_named(const JsonValue& value, int depth) {
  const std::string name = value.as_string();
  const std::vector<std::string> known = data_names(kPart);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    value.fail("expected a file of " + std::string(kPart) + ", found '" + name + "'" + did_you_mean(name, known));
  }
  const std::string path = data_folder() + "/" + kPart + "/" + name + ".json";
  const std::shared_ptr<const LaunchFile> before = read_files().find(path);
  if (before && depth + before->files - 1 <= kDeepest) return before;
  const JsonDocument document = JsonDocument::read_file(path);
  auto file = std::make_shared<const LaunchFile>(read_launch_file(document.root(), depth));
  read_files().keep(path, file);
  return file;
}

}  // namespace

Rewrites parse_rewrites(const JsonValue& root) { return read_launch_file(root, 1).rewrites; }

std::shared_ptr<const Rewrites> read_rewrites(const JsonValue& stack, std::string_view key) {
  if (!stack.find_string(key)) return nullptr;
  const std::shared_ptr<const LaunchFile> file = read_named(stack.at(key), 1);
  return {file, &file->rewrites};
}

}  // namespace plumbline
